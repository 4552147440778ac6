"""Averages of what files have are made part by part: the same numbers, bit for bit, as leaf by leaf."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from onebasin import Alignment, canonicalize, transport
from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.elementwise import PART, FromFiles, in_parts
from onebasin.paths import FactorPath

NAMES = ["GPT2LMHeadModel", "ViTForImageClassification", "LlamaForCausalLM"]
F64 = torch.float64


def made(checkpoint: Checkpoint) -> dict[str, torch.Tensor | list[torch.Tensor]]:
    """What `save` is given: tensors, or lists of their parts."""
    each = {planned.name: planned.make() for planned in checkpoint.planned()}
    return {name: x if isinstance(x, torch.Tensor) else list(x) for name, x in each.items()}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
def test_an_average_in_parts_is_that_of_whole_tensors(tiny, monkeypatch, name, share):
    monkeypatch.setitem(PART, "cpu", 50)
    a, b = tiny(name)
    average = FactorPath(a, b).at(share)
    for key, parts in made(average).items():
        whole = (1 - share) * a.store.read(key).to(F64) + share * b.store.read(key).to(F64)
        assert [len(part) for part in parts] == [len(part) for part in in_parts(whole)]
        assert all(part.dtype is F64 for part in parts)
        assert torch.equal(torch.cat(parts), whole.reshape(-1))
        assert torch.equal(average.tensor(key), whole)


@pytest.mark.parametrize("name", NAMES)
def test_three_models_and_one(tiny, monkeypatch, name):
    monkeypatch.setitem(PART, "cpu", 50)
    a, b = tiny(name)
    for model in (a, FactorPath(a, b, a).at((0.2, 0.5, 0.3))):
        for key, parts in made(model).items():
            assert torch.equal(torch.cat(parts), model.tensor(key).reshape(-1))


def test_files_are_as_they_were(tiny):
    a, b = tiny("LlamaForCausalLM")
    before = {name: a.store.read(name).clone() for name in a.store.headers}
    with a.store.resting("cpu", 10**9), b.store.resting("cpu", 10**9):  # what rests is not to be changed either
        first, again = (made(FactorPath(a, b).at(0.3)) for _ in range(2))
    assert all(torch.equal(torch.cat(x), torch.cat(again[name])) for name, x in first.items())
    assert all(torch.equal(a.store.read(name), x) for name, x in before.items())


def test_what_is_not_number_by_number_is_made_whole(tiny):
    a, b = tiny("LlamaForCausalLM")
    form = canonicalize(b).checkpoint
    moved = transport(form, Alignment.random(form.spec, 1))
    average = FactorPath(a, moved).at(0.5)
    whole = {name for name, x in made(average).items() if isinstance(x, torch.Tensor)}
    assert whole == set(a.store.headers)
    changed, other = (next(leaf for leaf in a if end in leaf) for end in ("q_proj.weight", "k_proj.weight"))
    mixed = a.derive({changed: lambda: 2 * a[changed]})
    key = a.spec.leaves[changed].key
    assert {name for name, x in made(mixed).items() if isinstance(x, torch.Tensor)} == {key}
    assert FromFiles.average([a.leaves[changed], mixed.leaves[changed]], (0.5, 0.5)) is None
    assert FromFiles.average([a.leaves[changed], b.leaves[other]], (0.5, 0.5)) is None
    assert FromFiles.average([average.leaves[changed]], (1.0,)) is None


def test_a_tensor_of_which_one_leaf_changed_is_made_whole(tiny):
    """Queries, keys and values are one tensor in GPT-2."""
    a, _ = tiny("GPT2LMHeadModel")
    shared = next(leaves for leaves in a.spec.parts.values() if len(leaves) > 1)
    changed = a.derive({shared[0].name: lambda: 2 * a[shared[0].name]})
    parts = made(changed)
    assert isinstance(parts[shared[0].key], torch.Tensor)
    assert all(isinstance(x, list) for name, x in parts.items() if name != shared[0].key)


def test_parts_fill_a_tensor_whose_leaves_are_all_made_of_the_same_files(tiny):
    a, b = tiny("GPT2LMHeadModel")
    leaves = next(leaves for leaves in a.spec.parts.values() if len(leaves) > 1)
    mine, theirs = ([model.leaves[leaf.name] for leaf in leaves] for model in (a, b))
    other = lambda: a[leaves[0].name]  # noqa: E731
    assert mine[0].fills(mine)
    assert not mine[0].fills([*mine[:-1], theirs[-1]])
    assert not mine[0].fills([*mine[:-1], other])
    halves, thirds = (FromFiles.average([mine[0], theirs[0]], (x, 1 - x)) for x in (1 / 2, 1 / 3))
    assert halves.fills([halves])
    assert not halves.fills([halves, thirds])
    assert not thirds.fills(mine)
    less = replace(mine[-1], leaf=replace(mine[-1].leaf, plus=1.0))
    assert not mine[0].fills([*mine[:-1], less])
