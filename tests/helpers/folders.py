"""Small Llamas as folders, ways to change a folder, and what is in one that was written."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

from helpers.random_models import random_model

LLAMA = {
    "hidden_size": 36, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 9, "head_dim": 4,
    "num_key_value_heads": 3, "hidden_act": "silu", "vocab_size": 17, "max_position_embeddings": 12, "num_labels": 3,
    "rms_norm_eps": 1e-6, "mlp_bias": True, "attention_bias": False, "tie_word_embeddings": False,
}  # fmt: skip


def llama(folder: Path, name: str = "LlamaForCausalLM", weights: int = 0, **settings: object) -> Path:
    random_model(name, transformers.LlamaConfig(**{**LLAMA, **settings}), weights).save_pretrained(folder)
    return folder


def edit_config(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def edit_weights(folder: Path, change) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def certificate(folder: Path) -> dict:
    return json.loads((folder / "certificate.json").read_text())


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(one: Path, two: Path) -> bool:
    x, y = tensors(one), tensors(two)
    return x.keys() == y.keys() and all(x[name].equal(y[name]) for name in x)
