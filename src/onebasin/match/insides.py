"""The maps inside heads: all of one kind, over heads and layers, in one batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import torch

from onebasin.families import Family
from onebasin.maps import Map
from onebasin.match.moments import Moments, weight_moments
from onebasin.match.pair import Maps, Pair
from onebasin.match.solve import solve


def stack(maps: list[Map]) -> Map:
    """Fibred maps of one kind as one map with all their fibres."""
    parts = [g.tensors() for g in maps]
    return type(maps[0]).from_tensors({name: torch.cat([p[name] for p in parts]) for name in parts[0]})


def solve_insides(
    pair: Pair, maps: Maps, spaces: Iterable[str], family: Mapping[str, Family], emphasis: Mapping[str, float]
) -> dict[str, Map]:
    """The best maps of `spaces`, each in its family, with heads in the order of `maps`; from `maps` where iterative.

    Moments see the heads where they arrive, and maps are stored by the head they belong to: `index` leads from one to
    the other.
    """
    kinds = defaultdict(list)
    for space in spaces:
        kinds[family[space], pair.spec.spaces[space].size].append(space)
    found: dict[str, Map] = {}
    for (kind, _), alike in kinds.items():
        moments = [weight_moments(pair, maps, space, emphasis) for space in alike]
        arrivals = [maps[str(pair.spec.spaces[space].base)].tensors()["index"] for space in alike]
        start = stack([maps[space].take(index) for space, index in zip(alike, arrivals, strict=True)])
        solved, first = solve(kind, Moments.stack(moments), start, pair.condition), 0
        for space, index in zip(alike, arrivals, strict=True):
            found[space] = solved.take(first + index.argsort())
            first += len(index)
    return found
