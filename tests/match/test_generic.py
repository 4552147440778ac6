"""Directions that heads use, and how far heads are apart: on models where both are known."""

from __future__ import annotations

import pytest

from helpers.pairs import open_random, scrambled
from onebasin import canonicalize
from onebasin.match.generic import describe_heads, heads_of

KINDS = ["gpt2", "llama", "gpt_neox", "qwen3"]


@pytest.fixture(params=KINDS)
def form(request, tmp_path):
    return canonicalize(open_random(tmp_path, request.param, 3, 0)).checkpoint.in_memory()


def test_random_models_use_all_and_have_no_twins_in_any_basis(form):
    for layer, moved in zip(heads_of(form), heads_of(scrambled(form, 1)), strict=True):
        assert layer.weakest > 1e-3
        assert moved.weakest > 1e-5  # maps of condition 10 on both sides
        if layer.closest is not None:
            assert layer.closest > 0.3
            assert moved.closest == pytest.approx(layer.closest, rel=1e-9)  # circuits know no basis
    assert len(heads_of(form)) == len(form.spec.heads) > 0


def changed(form, change):
    """The form with `change` made to the values of its first layer, (heads, inside, features)."""
    attention = form.spec.attentions[0]
    weight = form.spec.leaves[form.spec.linears[attention.value].weight]
    heads, inside = (dim for dim, axis in weight.spaces() if axis.space not in form.spec.streams)
    x = form[weight.name].clone()
    change(x.movedim((heads, inside), (0, 1)))
    return form.derive({weight.name: lambda: x})


def test_a_direction_that_nothing_passes_is_found(form):
    def cut(x):
        x[0, 0] = 0

    found = describe_heads(changed(form, cut))["weakest"]
    assert found["weakest"] < 1e-12
    assert found["heads"] == heads_of(form)[0].heads


def test_twin_heads_are_found(tmp_path):
    form = canonicalize(open_random(tmp_path, "gpt2", 3, 0)).checkpoint.in_memory()
    first = heads_of(form)[0].heads
    twins = {}
    for name, leaf in form.spec.leaves.items():
        dims = [dim for dim, axis in leaf.spaces() if axis.space == first]
        if dims:
            x = form[name].clone().movedim(dims[0], 0)
            x[1] = x[0]
            twins[name] = x.movedim(0, dims[0])
    found = describe_heads(form.derive({name: (lambda x=x: x) for name, x in twins.items()}))["closest"]
    assert found["closest"] < 1e-6 < describe_heads(form)["closest"]["closest"]
    assert found["heads"] == first
