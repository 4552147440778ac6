"""Each factor and each place of a widened model is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from helpers.exactness import EXACT
from helpers.growing import drift, growths
from helpers.pairs import open_random
from helpers.random_models import config_of, random_model
from onebasin import Checkpoint, canonicalize, widen
from onebasin.canonical import rewrites
from onebasin.canonical.structure import canonical_spec
from onebasin.errors import NotExpressible
from onebasin.families import ORTHOGONAL, ORTHOGONAL_ONES
from onebasin.spec import ModelSpec
from onebasin.widening import widen as module
from onebasin.widening.embeddings import Embedding, embeddings
from onebasin.widening.target import fields_of


def without_factor(spec: ModelSpec, space: str, e: Embedding) -> Embedding:
    return replace(e, vector=1.0, covector=1.0)


def without_vector(spec: ModelSpec, space: str, e: Embedding) -> Embedding:
    return replace(e, vector=1.0)


def beside(spec: ModelSpec, space: str, e: Embedding) -> Embedding:
    """Coordinates in front, nothing behind."""
    n = spec.spaces[space].size
    return replace(e, source=tuple(i if i < n else -1 for i in range(len(e.source))))


def not_shared(spec: ModelSpec, space: str, e: Embedding) -> Embedding:
    """Every copy speaks in full."""
    return replace(e, parts=None)


WRONG = [
    ("gpt2", "residual", without_factor), ("gpt2", ".qk", without_vector), ("vit", "residual", without_factor),
    ("gpt_neox", ".qk_rotary", beside), ("gpt_neox", ".qk_rotary", without_vector),
    ("llama", "residual", without_factor), ("llama", ".qk", beside), ("llama", ".qk", without_vector),
    ("qwen3", ".qk", without_factor), ("qwen3", ".qk_gain", without_factor), ("qwen3", ".qk_gain", beside),
    ("bert", "residual", beside), ("bert", "mlm", beside), ("bert", ".qk", without_vector),
    ("gpt2", ".heads", not_shared), ("vit", ".ffn", not_shared), ("llama", ".ffn", not_shared),
    ("llama", ".kv_heads", not_shared),
]  # fmt: skip


@pytest.mark.parametrize(("model_type", "space", "spoil"), WRONG)
def test_any_other_embedding_moves_the_outputs(tmp_path, monkeypatch, model_type, space, spoil):
    small = open_random(tmp_path / "m", model_type, 3, 5)
    *_, settings = growths(canonical_spec(small))
    spoilt = set()

    def wrong(a: ModelSpec, b: ModelSpec, extra: str) -> dict[str, Embedding]:
        found = embeddings(a, b, extra)
        spoilt.update(name for name in found if name.endswith(space))
        return {name: spoil(a, name, e) if name in spoilt else e for name, e in found.items()}

    with monkeypatch.context() as patch:
        patch.setattr(module, "embeddings", wrong)
        large = widen(small, settings, extra="split").in_memory()
    assert spoilt
    assert drift(small, large) > 1e-4


def test_a_stream_that_is_not_centred_cannot_be_padded(tmp_path, monkeypatch):
    small = open_random(tmp_path / "m", "gpt2", 3, 5)
    *_, settings = growths(canonical_spec(small))
    monkeypatch.setattr(rewrites, "centre", lambda checkpoint, space: checkpoint)
    assert drift(small, widen(small, settings).in_memory()) > 1e-4


@torch.no_grad()
@pytest.mark.parametrize("model_type", ["bert", "gpt2", "llama"])
def test_constant_gains_that_stay(tmp_path, model_type):
    """They give the stream more symmetries, but a norm's output in it has a mean and a length of its own."""
    name = {"bert": "BertForMaskedLM", "gpt2": "GPT2Model", "llama": "LlamaModel"}[model_type]
    model = random_model(name, config_of(model_type, 3), 5)
    for key, parameter in model.named_parameters():
        if parameter.ndim == 1 and key.endswith("weight"):
            parameter.fill_(1.5)
    model.save_pretrained(tmp_path / "m")
    small = Checkpoint.open(tmp_path / "m")
    form = canonicalize(small).checkpoint
    assert form.spec.family("residual") in (ORTHOGONAL, ORTHOGONAL_ONES)
    for settings in growths(form.spec):
        assert drift(small, widen(small, settings).in_memory()) < EXACT
    with pytest.raises(NotExpressible, match="eps"):
        widen(small, {fields_of(small.spec)["eps"]: 0.01})
