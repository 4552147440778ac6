"""What is trained on what, for how long: images and text, at full length and quick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel, ViTConfig, ViTForImageClassification


@dataclass(frozen=True)
class Variant:
    """A model and its data.  `train` and `test` are tasks as recipes write them; the two splits share no sample.

    `metric` is what is shown beside the loss; `inputs` is how many inputs without labels activations are looked at on,
    `made_up` how many the models make up for the method without data.
    """

    name: str
    shown: str
    fresh: Callable[[], PreTrainedModel]
    train: dict[str, Any]
    test: dict[str, Any]
    metric: str
    steps: int
    batch: int
    inputs: int
    made_up: int
    learn: dict[str, Any]
    auto: dict[str, Any] = field(default_factory=dict)
    lr: float = 3e-3
    weight_decay: float = 0.1
    quick: bool = False

    def shorter(self, steps: int, learn: int, auto: int, samples: int) -> Variant:
        """Fewer steps of training and learning, half of the data to learn from, fewer samples to measure on."""
        return replace(
            self, steps=steps, learn={**self.learn, "steps": learn}, auto={**self.auto, "steps": auto},
            train={**self.train, "samples": self.train["samples"] // 2}, test={**self.test, "samples": samples},
            made_up=self.made_up // 2, quick=True,
        )  # fmt: skip


def vision() -> PreTrainedModel:
    """A wide ViT of one layer for pictures of 24 × 24 in patches of 6 × 6."""
    config = ViTConfig(
        image_size=24, patch_size=6, hidden_size=128, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    config.num_labels = 10
    return ViTForImageClassification(config)


def language() -> PreTrainedModel:
    """A GPT-2 of one layer that reads windows of 64 bytes.  Its head is not tied, so B can be written in A's gauge."""
    config = GPT2Config(
        vocab_size=256, n_embd=96, n_inner=192, n_layer=1, n_head=4, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, tie_word_embeddings=False, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


IMAGE = Variant(
    "image", "Vision Transformers that name drawn shapes", vision, metric="accuracy",
    train={"data": "builtin:shapes:train", "samples": 16000}, test={"data": "builtin:shapes:test", "samples": 1000},
    steps=900, batch=64, lr=2e-3, inputs=500, made_up=2000,
    learn={"steps": 900, "batch": 64, "lr": 6e-3, "eval_every": 50, "paper": {"law": "full"}},
    auto={"steps": 600, "batch": 64},
)  # fmt: skip
TEXT = Variant(
    "text", "GPT-2s that write Python, byte by byte", language, metric="bits_per_byte",
    train={"data": "builtin:python:train", "samples": 1000}, test={"data": "builtin:python:test", "samples": 200},
    steps=500, batch=32, lr=5e-3, inputs=200, made_up=400,
    learn={"steps": 900, "batch": 32, "optimizer": "muon", "lr": 3e-2, "eval_every": 50, "paper": {"law": "full"}},
    auto={"steps": 100, "batch": 16},
)  # fmt: skip
VARIANTS = {
    ("image", False): IMAGE,
    ("text", False): TEXT,
    ("image", True): IMAGE.shorter(steps=350, learn=150, auto=20, samples=400),
    ("text", True): TEXT.shorter(steps=200, learn=100, auto=20, samples=80),
}
