"""Entries that repeat another: which of them are written again."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from helpers.random_models import config_of, random_model
from onebasin import Checkpoint

HEAD, BIAS = "lm_head.weight", ("cls.predictions.bias", "cls.predictions.decoder.bias")


def stored(folder: Path, model_type: str, name: str, *, tied: bool) -> dict:
    config = config_of(model_type, 2)
    config.tie_word_embeddings = tied
    random_model(name, config, 0).save_pretrained(folder)
    return load_file(folder / "model.safetensors")


def written(folder: Path) -> set[str]:
    return {planned.name for planned in Checkpoint.open(folder).planned()}


@pytest.mark.parametrize("there", [True, False])
def test_a_tied_head_is_written_where_it_was_stored(tmp_path, there):
    tensors = stored(tmp_path, "gpt2", "GPT2LMHeadModel", tied=True)
    tensors.pop(HEAD, None)
    if there:
        tensors[HEAD] = tensors["transformer.wte.weight"].clone()
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert written(tmp_path) == set(tensors)


@pytest.mark.parametrize("left_out", [*BIAS, None])
def test_one_bias_under_two_names_is_written_under_both(tmp_path, left_out):
    """Where the file held one of them, too: transformers would miss the other."""
    tensors = stored(tmp_path, "bert", "BertForMaskedLM", tied=False)
    tensors |= {name: tensors[next(x for x in BIAS if x in tensors)].clone() for name in BIAS}
    everything = set(tensors)
    tensors.pop(left_out, None)
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert written(tmp_path) == everything
