"""What is trained on what, for how long: images and text, at full length and quick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel


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
        """Fewer steps of training and learning, fewer samples to measure on."""
        return replace(
            self, steps=steps, learn={**self.learn, "steps": learn}, auto={**self.auto, "steps": auto},
            test={**self.test, "samples": samples}, made_up=self.made_up // 2, quick=True,
        )  # fmt: skip


def vision() -> PreTrainedModel:
    """A ViT for pictures of 16 × 16 in patches of 4 × 4."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        image_size=16, patch_size=4, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    config.num_labels = 10
    return ViTForImageClassification(config)


def language() -> PreTrainedModel:
    """A Llama that reads bytes."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=64, tie_word_embeddings=False,
    )  # fmt: skip
    return LlamaForCausalLM(config)


IMAGE = Variant(
    "image", "Vision Transformers that name drawn shapes", vision, metric="accuracy",
    train={"data": "builtin:shapes:train", "samples": 16000}, test={"data": "builtin:shapes:test", "samples": 1000},
    steps=1500, batch=64, inputs=500, made_up=1000,
    learn={"steps": 1000, "batch": 64, "eval_every": 50, "law": "full"}, auto={"steps": 150, "batch": 32},
)  # fmt: skip
TEXT = Variant(
    "text", "Llamas that write Python, byte by byte", language, metric="bits_per_byte",
    train={"data": "builtin:python:train", "samples": 1000}, test={"data": "builtin:python:test", "samples": 200},
    steps=700, batch=32, inputs=200, made_up=400,
    learn={"steps": 500, "batch": 32, "eval_every": 50, "law": "full"}, auto={"steps": 100, "batch": 16},
)  # fmt: skip
VARIANTS = {
    ("image", False): IMAGE,
    ("text", False): TEXT,
    ("image", True): IMAGE.shorter(steps=450, learn=250, auto=40, samples=400),
    ("text", True): TEXT.shorter(steps=200, learn=100, auto=25, samples=80),
}
