"""The assignment of experts: two are as far apart as they are under the best map of their units.

Every pair of experts takes an assignment of their units.  Where there are many experts, each is compared with those
alone whose row of the router is near.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from onebasin.families import Family
from onebasin.linalg import assign
from onebasin.maps import Map, Permutation
from onebasin.match.moments import paired_columns
from onebasin.match.pair import Maps, Pair
from onebasin.match.units import solve_fibres

NEAR = 16  # experts of B that one of A is compared with


def match_experts(
    pair: Pair, maps: Maps, experts: str, family: Mapping[str, Family], emphasis: Mapping[str, float]
) -> dict[str, Map]:
    """The assignment of experts, and of the units inside each, that brings them closest."""
    (inner,) = (name for name, space in pair.spec.spaces.items() if space.base == experts)
    rows = _router_rows(pair, maps, experts, emphasis)
    between = torch.stack([w * torch.cdist(a, b).square() for a, b, w in rows]).sum(0)
    cost = torch.full_like(between, torch.inf)
    for column in between.argsort(1)[:, :NEAR].unbind(1):
        arrived = {**maps, experts: _order(column)}
        left = _units_left(pair, arrived, inner, family[inner], emphasis)
        cost.scatter_(1, column[:, None], (left + between.gather(1, column[:, None]).squeeze(1))[:, None])
    found = cost[cost.isfinite()]
    index = assign(-cost.nan_to_num(posinf=float(found.max() + found.sum())))  # not compared: only if it must be
    order = _order(index)
    units = solve_fibres(pair, {**maps, experts: order}, inner, family[inner], emphasis)
    return {experts: order, inner: units.take(index.argsort())}


def _order(index: Tensor) -> Permutation:
    return Permutation(index, torch.ones(len(index), dtype=torch.float64, device=index.device))


def _router_rows(
    pair: Pair, maps: Maps, experts: str, emphasis: Mapping[str, float]
) -> Iterator[tuple[Tensor, Tensor, float]]:
    """(rows of A, of B, emphasis) of what belongs to an expert and not to one of its units."""
    alone = {name: w if len(pair.spec.leaves[name].spaces()) == 2 else 0.0 for name, w in emphasis.items()}
    for _, a, b, w in paired_columns(pair, maps, experts, alone):
        yield a, b, w


def _units_left(pair: Pair, maps: Maps, inner: str, family: Family, emphasis: Mapping[str, float]) -> Tensor:
    """Σ w |a − g b|² of every expert with the one that arrives in its place, at the best g of their units."""
    g = solve_fibres(pair, maps, inner, family, emphasis)
    parts = paired_columns(pair, maps, inner, emphasis)
    left = [w * (a - g.act(b, 1, rep, base_dim=0)).square().sum((1, 2)) for rep, a, b, w in parts]
    return torch.stack(left).sum(0)
