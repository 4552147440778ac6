"""The way back: a canonical form with the gains, offsets and value biases of a reference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch

from helpers.classes import one_of_each_kind
from helpers.exactness import EXACT, answers, drift, drift_from
from helpers.rewriting import folded, refusal, setter
from onebasin import Checkpoint, canonicalize, in_gauge_of
from onebasin.canonical import rewrites
from onebasin.errors import Incompatible


@one_of_each_kind()
def test_the_gauge_of_a_tied_model_is_refused(make, model_type, name):
    a = make(model_type, name, 5, tied=True)
    if a.spec.tied:
        assert "ties its head" in refusal(in_gauge_of, a, canonicalize(a).checkpoint).what


@one_of_each_kind()
def test_a_model_in_its_own_gauge_is_itself(make, model_type, name):
    a = make(model_type, name, 5, tied=False)
    form = canonicalize(a).checkpoint
    back = in_gauge_of(a, form)
    assert back.spec == a.spec
    assert drift(a, back) < EXACT
    for norm in a.spec.norms.values():
        assert norm.gain is None or torch.equal(back[norm.gain], a[norm.gain])
        assert norm.bias is None or torch.allclose(back[norm.bias], a[norm.bias], atol=1e-12)
    for attention in a.spec.attentions:  # what every head adds, whatever it attends to
        bias = a.spec.linears[attention.value].bias
        assert bias is None or torch.allclose(folded(back)[bias], folded(a)[bias], atol=1e-12)


@one_of_each_kind()
def test_a_norm_and_its_readers_share_a_gain_in_any_way(make, model_type, name):
    """Any gains leave the function as it is, also in another model's gauge; behind an RMSNorm the midpoint, too."""
    a, b = make(model_type, name, 5, tied=False), make(model_type, name, 5, weights=99, tied=False)
    forms = [canonicalize(x).checkpoint for x in (a, b)]
    free = [norm for norm in forms[1].spec.norms.values() if norm.unit and norm.gain and not norm.blocked]
    g, shared = torch.Generator().manual_seed(3), forms[1]
    for norm in free:
        factor = torch.randn(shared[norm.gain].shape, generator=g, dtype=torch.float64).exp()
        shared = rewrites.split_gain(shared, norm.name, factor)
        assert torch.equal(shared[norm.gain], factor)
    before, shared = answers(b), shared.in_memory()
    assert drift_from(before, b, shared) < EXACT
    written = in_gauge_of(a, shared)
    assert drift_from(before, b, written) < EXACT
    if all(norm.kind == "rms" for norm in free):
        assert drift(midpoint(a, written), midpoint(forms[0], shared)) < EXACT
    if free:  # the controls: this is another midpoint, and the readers' half is needed
        assert drift(midpoint(forms[0], shared), midpoint(*forms)) > 1e-4
        half = forms[1].derive({norm.gain: partial(shared.__getitem__, norm.gain) for norm in free})
        assert drift_from(before, b, half) > 1e-4


def midpoint(a: Checkpoint, b: Checkpoint) -> Checkpoint:
    return a.derive({leaf: partial(lambda leaf: (a[leaf] + b[leaf]) / 2, leaf) for leaf in a.spec.leaves})


@pytest.mark.parametrize(
    ("model_type", "name", "gain", "tensor"),
    [
        ("gpt2", "GPT2LMHeadModel", "h__0__ln_1__weight", "transformer.h.0.ln_1.weight"),
        ("llama", "LlamaForCausalLM", "layers__0__input_layernorm__weight", "model.layers.0.input_layernorm.weight"),
        ("vit", "ViTForImageClassification", "vit__layernorm__weight", "vit.layernorm.weight"),
        ("dinov2", "Dinov2Model", "layer__0__layer_scale1__lambda1", "encoder.layer.0.layer_scale1.lambda1"),
    ],
)
@pytest.mark.parametrize("tiny", [0.0, 1e-7])
def test_the_gauge_of_a_model_with_a_tiny_gain_is_refused(make, model_type, name, gain, tensor, tiny):
    def spoil(p: torch.Tensor) -> None:
        p[3] = tiny

    a, b = make(model_type, name, 5, setter(**{gain: spoil})), make(model_type, name, 5, weights=99)
    error = refusal(in_gauge_of, a, canonicalize(b).checkpoint)
    assert (error.tensor, error.axis, error.space) == (tensor, 3, "residual")
    assert in_gauge_of(b, canonicalize(a).checkpoint).spec == a.spec  # the other way round divides by nothing tiny


@pytest.mark.parametrize(("offset", "fits"), [(0.0, True), (9.0, True), (11.0, False), (-11.0, False)])
def test_the_gauge_of_a_model_with_an_offset_much_larger_than_its_gain_is_refused(make, offset, fits):
    """b − (W/γ)β: digits cancel where β/γ is large, however harmless γ is alone."""

    def spoil(value: float) -> Callable[[torch.Tensor], None]:
        return lambda p: p[3].fill_(value)

    change = setter(h__0__ln_1__weight=spoil(1e-3), h__0__ln_1__bias=spoil(offset))
    a, b = make("gpt2", "GPT2LMHeadModel", 5, change), make("gpt2", "GPT2LMHeadModel", 5, weights=99)
    form = canonicalize(b).checkpoint
    if fits:
        assert drift(b, in_gauge_of(a, form)) < 1e4 * EXACT
    else:
        assert refusal(in_gauge_of, a, form).tensor == "transformer.h.0.ln_1.weight"


def test_the_gauge_of_another_architecture_is_refused(make):
    a, b = make("gpt2", "GPT2LMHeadModel", 5), make("gpt2", "GPT2LMHeadModel", 2)
    with pytest.raises(Incompatible) as caught:
        in_gauge_of(a, canonicalize(b).checkpoint)
    assert caught.value.tensor == "transformer.wte.weight"
