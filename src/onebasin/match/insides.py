"""The maps inside heads: all of one kind, over heads and layers, in one batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from onebasin.families import Family
from onebasin.maps import Map
from onebasin.match.moments import Moments, weight_moments
from onebasin.match.pair import Maps, Pair
from onebasin.match.solve import solve


def stack(maps: list[Map]) -> Map:
    """Fibred maps of one kind as one map with all their fibres."""
    parts = [g.tensors() for g in maps]
    return type(maps[0]).from_tensors({name: torch.cat([p[name] for p in parts]) for name in parts[0]})


@dataclass(frozen=True)
class Problem:
    """One space inside heads.  Moments and the start see the heads where they arrive, and maps are stored by the head
    they belong to: `index` leads from one to the other."""

    space: str
    family: Family
    moments: Moments
    start: Map
    index: Tensor


def inside_problem(pair: Pair, maps: Maps, space: str, family: Family, emphasis: Mapping[str, float]) -> Problem:
    """What is left to solve in `space`, with heads in the order of `maps`; an iteration begins at `maps`."""
    index = maps[str(pair.spec.spaces[space].base)].tensors()["index"]
    return Problem(space, family, weight_moments(pair, maps, space, emphasis), maps[space].take(index), index)


def solve_insides(problems: Iterable[Problem], condition: float) -> dict[str, Map]:
    """The best map of every space."""
    kinds = defaultdict(list)
    for problem in problems:
        kinds[problem.family, problem.moments.cross.shape[-1]].append(problem)
    found: dict[str, Map] = {}
    for (family, _), alike in kinds.items():
        start = stack([problem.start for problem in alike])
        solved, first = solve(family, Moments.stack([problem.moments for problem in alike]), start, condition), 0
        for problem in alike:
            found[problem.space] = solved.take(first + problem.index.argsort())
            first += len(problem.index)
    return found
