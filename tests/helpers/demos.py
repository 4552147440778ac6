"""The demo, made so small that a test can run it: everything happens, nothing is learned well."""

from __future__ import annotations

from dataclasses import replace

import transformers

from onebasin.demo import VARIANTS, Variant


def small_vision() -> transformers.PreTrainedModel:
    config = transformers.ViTConfig(
        image_size=8, patch_size=4, hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2
    )
    config.num_labels = 3
    return transformers.ViTForImageClassification(config)


def small_language() -> transformers.PreTrainedModel:
    config = transformers.LlamaConfig(
        vocab_size=256, hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=8, tie_word_embeddings=False,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def tiny(task: str) -> Variant:
    variant = VARIANTS[task, True]
    few = {"steps": 4, "batch": 8, "eval_every": 2}
    return replace(
        variant, fresh=small_vision if task == "image" else small_language, steps=30, batch=8, inputs=30, made_up=20,
        train={**variant.train, "samples": 60}, test={**variant.test, "samples": 20}, learn={**variant.learn, **few},
        auto={**variant.auto, **few},
    )  # fmt: skip
