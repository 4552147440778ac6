"""Spaces that play the same role in different layers, and what they are for."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from helpers.learning import open_pair
from onebasin import Alignment
from onebasin.ensemble.ensemble import Ensemble
from onebasin.families import ORTHOGONAL
from onebasin.maps import Orthogonal
from onebasin.moving.stacks import Stack, group_of, role, stacks


def test_roles_and_groups(root):
    assert role("layers.12.qk") == "layers.#.qk"
    form, _ = Ensemble.of(open_pair(root, "LlamaForCausalLM")).forms
    groups = {stack.name: group_of(form.spec, stack.spaces[0]) for stack in stacks(form.spec)}
    assert groups == {
        "residual": "residual", "layers.#.kv_heads": "heads", "layers.#.queries": "heads", "layers.#.qk": "qk",
        "layers.#.ov": "ov", "layers.#.ffn": "units",
    }  # fmt: skip
    identity = Alignment.identity(form.spec)
    assert all(stack.fibres in (None, 2 * (identity[stack.spaces[0]].fibres or 1)) for stack in stacks(form.spec))


@pytest.mark.parametrize("each", [None, 1, 3])
def test_spaces_in_any_order_have_their_own_maps_of_the_stack(each):
    stack = Stack("layers.#.qk", ("a", "b", "c"), ORTHOGONAL, 4, each)
    g = Orthogonal.sample(4, fibres=stack.fibres, generator=torch.Generator().manual_seed(0))
    own = {space: part.dense().view(-1, 4, 4) for space, part in stack.unstacked(g).items()}
    assert isinstance(stack.fibres_of(stack.spaces[1:]), slice)  # a view, where they are neighbours
    for count in (1, 2, 3):
        for spaces in permutations(stack.spaces, count):
            assert g.dense()[stack.fibres_of(spaces)].equal(torch.cat([own[space] for space in spaces]))
