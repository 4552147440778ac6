"""Gains that are zero, or constant."""

from __future__ import annotations

import pytest
import torch

from helpers.exactness import EXACT, drift
from helpers.rewriting import fold_gain, refusal, setter
from onebasin import Alignment, canonicalize, transport
from onebasin import families as fam


def zero_some(p: torch.Tensor) -> None:
    p[::3] = 0


@pytest.mark.parametrize(
    ("model_type", "name", "norms"),
    [
        ("gpt2", "GPT2ForTokenClassification", ("ln_1.weight", "ln_2.weight", "ln_f.weight")),
        ("gpt2", "GPT2LMHeadModel", ("ln_1.weight", "ln_2.weight", "ln_f.weight", "ln_f.bias")),
        ("llama", "LlamaForCausalLM", ("layernorm.weight", "model.norm.weight")),
        ("vit", "ViTForImageClassification", ("layernorm_before.weight", "layernorm.weight")),
        ("bert", "BertForTokenClassification", ("layer.1.output.LayerNorm.weight",)),
    ],
)
def test_zero_gains_fold(make, model_type, name, norms):
    """A norm that keeps its bias (a head without one) folds a zero gain where its bias is zero as well."""
    original = make(model_type, name, 5, setter(**{end.replace(".", "__"): zero_some for end in norms}))
    folded = canonicalize(original)
    assert drift(original, folded.checkpoint) < EXACT
    assert all(norm.unit for norm in folded.checkpoint.spec.norms.values() if not norm.blocked)
    alignment = Alignment.random(folded.checkpoint.spec)
    assert drift(original, transport(folded.checkpoint, alignment), alignment) < EXACT


@pytest.mark.parametrize("gain", [0.0, 1e-7])
def test_a_bias_that_must_stay_cannot_be_divided_by_a_zero_gain(make, gain):
    def spoil(p: torch.Tensor) -> None:
        p[3] = gain

    original = make("gpt2", "GPT2LMHeadModel", 5, setter(ln_f__weight=spoil, ln_f__bias=0.5))
    error = refusal(fold_gain, original, "transformer.ln_f")
    assert (error.tensor, error.axis, error.space) == ("transformer.ln_f.weight", 3, "residual")
    assert "bias 0.5" in error.found
    canonical = canonicalize(original)
    assert [r.tensor for r in canonical.refused if "too small" in r.what] == ["transformer.ln_f.weight"]
    form = canonical.checkpoint
    assert form.spec.family("residual") == fam.PERMUTATION_SIGN
    assert drift(original, form) < EXACT
    alignment = Alignment.random(form.spec, 1)
    assert drift(original, transport(form, alignment), alignment) < EXACT


@pytest.mark.parametrize(
    ("model_type", "name", "gains", "family"),
    [
        ("gpt2", "GPT2LMHeadModel", {"ln_f__weight": 1.3}, fam.ORTHOGONAL_ONES),
        ("llama", "LlamaForCausalLM", {"model__norm__weight": 0.7}, fam.ORTHOGONAL),
        ("qwen3", "Qwen3ForCausalLM", {"model__norm__weight": -2.0}, fam.ORTHOGONAL),
        ("gpt2", "GPT2Model", {"ln_f__weight": 1.3}, fam.ORTHOGONAL_ONES),
        ("llama", "LlamaModel", {"norm__weight": 0.7}, fam.ORTHOGONAL),
        ("vit", "ViTModel", {"layernorm__weight": -1.0}, fam.ORTHOGONAL_ONES),
        ("bert", "BertForTokenClassification", {"LayerNorm__weight": 0.7}, fam.ORTHOGONAL_ONES),
        ("bert", "BertModel", {"attention__output__LayerNorm__weight": 2.0, "embeddings__LayerNorm__weight": 0.5,
                               ".output__LayerNorm__weight": 1.5}, fam.ORTHOGONAL_ONES),
        ("bert", "BertForMaskedLM", {"LayerNorm__weight": 0.7}, fam.PERMUTATION),  # the tied transform has a GELU
    ],
)  # fmt: skip
def test_constant_gains_that_must_stay_give_the_rotations_back(make, model_type, name, gains, family):
    generic = canonicalize(make(model_type, name, tied=True), untie=False).checkpoint
    assert generic.spec.family("residual") <= fam.SIGNED_PERMUTATION
    original = make(model_type, name, 1, setter(**gains), tied=True)
    form = canonicalize(original, untie=False).checkpoint
    assert form.spec.tied == original.spec.tied
    assert form.spec.family("residual") == family
    alignment = Alignment.random(form.spec, 3)
    assert drift(original, transport(form, alignment), alignment) < EXACT


def test_a_constant_gain_of_zero_is_no_gain_to_rotate_by(make):
    original = make("llama", "LlamaModel", 1, setter(norm__weight=0.0))
    assert "output is the model's output" in refusal(fold_gain, original, "norm").found
