"""Spaces that play the same role in different layers, and what they are for."""

from __future__ import annotations

from helpers.learning import open_pair
from onebasin import Alignment
from onebasin.ensemble.ensemble import Ensemble
from onebasin.moving.stacks import group_of, role, stacks


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
