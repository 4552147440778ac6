"""Small models and files that tasks are made of, and what a refusal must say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

from helpers.random_models import random_model
from onebasin import Checkpoint
from onebasin.errors import BadTask
from onebasin.tasks import load_task

WORDS = ["[PAD]", "[UNK]", "good", "bad", "film", "very"]


def save(folder: Path, name: str, config: transformers.PreTrainedConfig) -> Path:
    random_model(name, config, 0).save_pretrained(folder)
    return folder


def vit(folder: Path, labels: tuple[str, ...] = ("cat", "dog", "owl"), **settings: object) -> Path:
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, patch_size=4,
        id2label=dict(enumerate(labels)), label2id={x: i for i, x in enumerate(labels)},
        **{"image_size": 8, "num_channels": 3, **settings},
    )  # fmt: skip
    return save(folder, "ViTForImageClassification", config)


def gpt2(folder: Path, vocabulary: int = 256, name: str = "GPT2LMHeadModel", positions: int = 16) -> Path:
    config = transformers.GPT2Config(
        n_embd=8, n_layer=1, n_head=2, vocab_size=vocabulary, n_positions=positions, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return save(folder, name, config)


def bert(folder: Path, tokens: bool = True, name: str = "BertForSequenceClassification", **settings: object) -> Path:
    config = transformers.BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        **{"num_labels": 2, "vocab_size": len(WORDS), "max_position_embeddings": 6, "pad_token_id": 0, **settings},
    )  # fmt: skip
    save(folder, name, config)
    if tokens:
        add_tokenizer(folder)
    return folder


def add_tokenizer(folder: Path, padding: str | None = "[PAD]", **special: str) -> None:
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]", pad_token=padding, **special)
    fast.save_pretrained(folder)


def pixels(n: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, *(shape or (8, 8, 3)))).astype(np.uint8)


def npz(file: Path, **arrays: object) -> str:
    np.savez(file, **arrays)
    return f"images:{file}"


def refused(task: str, folder: Path, *says: str, **settings: object) -> None:
    with pytest.raises(BadTask) as caught:
        load_task(task, Checkpoint.open(folder), **settings)
    error = caught.value
    assert error.next_step
    assert error.expected is not None or error.found is not None
    assert [piece for piece in says if piece not in str(error)] == []
