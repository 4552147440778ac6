"""The assignment of heads: distances between circuits, and the order of heads that makes their sum smallest."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from onebasin.families import TRIVIAL
from onebasin.linalg import assign
from onebasin.maps import Map, Permutation
from onebasin.match.circuits import Circuits, circuits_of, group_space, inner_spaces
from onebasin.match.pair import Maps, Pair

Metric = Callable[[Circuits, Circuits], Tensor]  # circuits of A and of B -> distances (h, g, h, g)


def frobenius_squared(a: Circuits, b: Circuits) -> Tensor:
    """|E − E'|² between all pairs of heads."""
    return a.square[:, :, None, None] + b.square - 2 * a.inner(b)


def head_costs(pair: Pair, maps: Maps, heads: str, metric: Metric) -> Tensor:
    """Summed circuit distances between every query head of A and of B, (h, g, h, g)."""
    inside = inner_spaces(pair.spec, heads)
    still = {name: g for name, g in maps.items() if name not in (heads, group_space(pair.spec, heads), *inside)}
    costs = [
        metric(circuits_of(pair, {}, inner, of_b=False), circuits_of(pair, still, inner, of_b=True)) for inner in inside
    ]
    return torch.stack(costs).sum(0)


def match_heads(pair: Pair, maps: Maps, heads: str, metric: Metric) -> dict[str, Map]:
    """The assignment of heads, and of queries inside heads, that brings the circuits closest; labelled ones stay."""
    if pair.spec.family(heads) == TRIVIAL:
        return {}
    cost = head_costs(pair, maps, heads, metric)
    between = cost.permute(0, 2, 1, 3)  # (h, h, g, g): within each pair of heads, queries against queries
    order = assign(-between)
    index = assign(-between.gather(-1, order.unsqueeze(-1)).sum((-2, -1)))
    found: dict[str, Map] = {heads: Permutation(index, cost.new_ones(len(index)))}
    group = group_space(pair.spec, heads)
    if group is not None:
        here = order[torch.arange(len(index)), index][index.argsort()]  # by the head that the queries belong to
        found[group] = Permutation(here, torch.ones_like(here, dtype=cost.dtype))
    return found
