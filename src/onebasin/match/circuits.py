"""Heads by their circuits: what a head computes does not depend on the basis inside it.

A circuit is E = Lᵀ R with L, R of shape (d, D): queries and keys, or values and outputs.  Inner products of circuits
come from d×d cross-Gram matrices,  ⟨L₁ᵀR₁, L₂ᵀR₂⟩ = ⟨L₁L₂ᵀ, R₁R₂ᵀ⟩,  so nothing of size D×D is formed per head.  Under
rotary positions every frequency pair keeps its own complex circuit conj(l) ⊗ r, and only pair j meets pair j.

Shapes: h heads, g queries that share a head (1 without grouping), d inside a head, F features.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from onebasin import families as fam
from onebasin.families import Rep
from onebasin.linalg import assign
from onebasin.maps import Map, Permutation
from onebasin.match.pair import Maps, Pair

Metric = Callable[[Tensor, Tensor, Tensor], Tensor]  # (⟨A, B⟩, |A|², |B|²) -> distance


def _cosine(inner: Tensor, aa: Tensor, bb: Tensor) -> Tensor:
    size = (aa * bb).sqrt()
    return 1 - torch.where(size > 0, inner / size, torch.zeros_like(inner))


METRICS: dict[str, Metric] = {
    "frobenius-squared": lambda inner, aa, bb: aa + bb - 2 * inner,
    "frobenius": lambda inner, aa, bb: (aa + bb - 2 * inner).clamp_min(0).sqrt(),
    "cosine": _cosine,
    "normalised": lambda inner, aa, bb: (2 * _cosine(inner, aa, bb)).clamp_min(0).sqrt(),
}


def group_space(pair: Pair, heads: str) -> str | None:
    """The space of query heads inside each key/value head, if heads are grouped."""
    inside = (name for name, space in pair.spec.spaces.items() if space.base == heads)
    return next((name for name in inside if pair.spec.family(name) == fam.PERMUTATION), None)


def _factor(pair: Pair, maps: Maps, heads: str, inner: str, rep: Rep, *, of_b: bool) -> Tensor:
    """All leaves on one side of a circuit as (h, g, d, F); g = 1 for leaves that grouped queries share."""
    group, parts = group_space(pair, heads), []
    others = {name: g for name, g in maps.items() if name not in (heads, inner, group)}
    for leaf in pair.spec.leaves.values():
        dims = {axis.space: dim for dim, axis in leaf.spaces()}
        if inner not in dims or dict(leaf.spaces())[dims[inner]].rep is not rep:
            continue
        tensor = pair.moved(leaf, others) if of_b else pair.a[leaf.name]
        front = [dims[heads], *([dims[group]] if group in dims else []), dims[inner]]
        tensor = tensor.movedim(front, list(range(len(front))))
        tensor = tensor if group in dims else tensor.unsqueeze(1)
        parts.append(tensor.flatten(3) if tensor.ndim > 3 else tensor.unsqueeze(3))
    return torch.cat(parts, 3)


def _cross(x: Tensor, y: Tensor, rotary: bool) -> Tensor:
    """X_hg Y_ijᵀ for all pairs of heads: (h, g, i, j, d, d), or the complex numbers of its pairs (h, g, i, j, d/2)."""
    if not rotary:
        return torch.einsum("hgkf,ijlf->hgijkl", x, y)
    x_pairs, y_pairs = (torch.complex(*t.chunk(2, 2)) for t in (x, y))
    return torch.einsum("hgkf,ijkf->hgijk", x_pairs.conj(), y_pairs)


def _inner(left: Tensor, right: Tensor, rotary: bool) -> Tensor:
    if rotary:
        return (left.conj() * right).real.sum(-1)
    return (left * right).sum((-2, -1))


def _self_norm(left: Tensor, right: Tensor, rotary: bool) -> Tensor:
    """|E|² of every head, (h, g), head by head."""
    one = [_inner(_cross(l[None], l[None], rotary), _cross(r[None], r[None], rotary), rotary)
           for l, r in zip(left, right, strict=True)]  # fmt: skip
    return torch.stack([x[0, :, 0].diagonal() for x in one])


def head_costs(pair: Pair, maps: Maps, heads: str, metric: Metric) -> Tensor:
    """Summed circuit distances between every query head of A and of B, (h, g, h, g)."""
    total = None
    for inner, space in pair.spec.spaces.items():
        if space.base != heads or inner == group_space(pair, heads):
            continue
        rotary = pair.spec.family(inner) <= fam.ROTARY
        left_a, left_b, right_a, right_b = (
            _factor(pair, maps, heads, inner, rep, of_b=of_b) for rep in (Rep.VEC, Rep.COV) for of_b in (False, True)
        )
        inner_ab = _inner(_cross(left_a, left_b, rotary), _cross(right_a, right_b, rotary), rotary)
        aa, bb = _self_norm(left_a, right_a, rotary), _self_norm(left_b, right_b, rotary)
        cost = metric(inner_ab, aa[:, :, None, None], bb[None, None])
        total = cost if total is None else total + cost
    assert total is not None
    return total


def match_heads(pair: Pair, maps: Maps, heads: str, metric: Metric) -> dict[str, Map]:
    """The assignment of heads, and of queries inside heads, that brings the circuits closest."""
    cost = head_costs(pair, maps, heads, metric)
    between = cost.permute(0, 2, 1, 3)  # (h, h, g, g): within each pair of heads, queries against queries
    order = assign(-between)
    index = assign(-between.gather(-1, order.unsqueeze(-1)).sum((-2, -1)))
    found: dict[str, Map] = {heads: Permutation(index, cost.new_ones(len(index)))}
    group = group_space(pair, heads)
    if group is not None:
        here = order[torch.arange(len(index)), index][index.argsort()]  # by the head that the queries belong to
        found[group] = Permutation(here, torch.ones_like(here, dtype=cost.dtype))
    return found
