"""Heads in an order given by hand, to see whether matching finds the best one (second paper, stage one)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onebasin.alignment import Alignment
from onebasin.errors import BadRecipe
from onebasin.maps import Permutation
from onebasin.match.circuits import inner_spaces
from onebasin.match.insides import inside_problem, solve_insides
from onebasin.match.options import group_of
from onebasin.match.pair import Pair
from onebasin.spec import ModelSpec


def head_spaces(spec: ModelSpec) -> list[str]:
    """The heads of every layer, the first layer first."""
    return [name for name, space in spec.spaces.items() if group_of(spec, name) == "attention" and space.base is None]


def reordered(pair: Pair, found: Alignment, heads: str, order: Sequence[int]) -> Alignment:
    """`found` with the heads it puts in places 0, 1, ... taken in this order; the maps inside them are solved anew.

    Queries that share a head keep the order they have.
    """
    if sorted(order) != list(range(pair.spec.spaces[heads].size)):
        raise BadRecipe("This is no order of the heads", expected=f"0 to {pair.spec.spaces[heads].size - 1}, each once",
                        found=list(order), next_step="give every head one place")  # fmt: skip
    index = found[heads].tensors()["index"][list(order)]
    maps = {**found.maps, heads: Permutation(index, torch.ones(len(index), dtype=torch.float64))}
    alike = dict.fromkeys(pair.a, 1.0)
    problems = [inside_problem(pair, maps, x, pair.spec.family(x), alike) for x in inner_spaces(pair.spec, heads)]
    return Alignment({**maps, **solve_insides(problems, pair.condition)}, found.bases)
