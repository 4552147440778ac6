"""The assignment of heads: distances between circuits, and the order of heads that makes their sum smallest."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from onebasin.linalg import assign
from onebasin.maps import Map, Permutation
from onebasin.match.circuits import Circuits, circuits_of, cross, gram, group_space, inner_spaces
from onebasin.match.pair import Maps, Pair

Metric = Callable[[Circuits, Circuits], Tensor]  # circuits of A and of B -> distances (h, g, h, g)


def _frobenius_squared(a: Circuits, b: Circuits) -> Tensor:
    return a.square[:, :, None, None] + b.square - 2 * a.inner(b)


def _cosine(a: Circuits, b: Circuits) -> Tensor:
    inner, size = a.inner(b), (a.square[:, :, None, None] * b.square).sqrt()
    return 1 - torch.where(size > 0, inner / size, torch.zeros_like(inner))


def _spectral(a: Circuits, b: Circuits) -> Tensor:
    """The largest singular value of E − E', head by head of A so that no more than one row of pairs is in memory."""
    one = _spectral_rotary if a.rotary else _spectral_dense
    return torch.cat([one(Circuits(l[None], r[None], a.rotary), b) for l, r in zip(a.left, a.right, strict=True)])


def _spectral_dense(a: Circuits, b: Circuits) -> Tensor:
    """E − E' = Xᵀ Y with X = [L; −L'], Y = [R; R'], 2d rows each: its singular values are those of √(X Xᵀ) √(Y Yᵀ)."""
    x, y = _joint_gram(a.left, b.left, -1), _joint_gram(a.right, b.right, 1)
    sizes, basis = torch.linalg.eigh(x)
    root = basis * sizes.clamp_min(0).sqrt().unsqueeze(-2)
    largest: Tensor = torch.linalg.eigvalsh(root.mT @ y @ root)[..., -1]
    return largest.clamp_min(0).sqrt()


def _joint_gram(x: Tensor, y: Tensor, sign: int) -> Tensor:
    """Of [x; sign·y] for all pairs of heads, (h, g, i, j, 2d, 2d)."""
    xy = sign * cross(x, y, rotary=False)
    xx = gram(x, x, rotary=False)[:, :, None, None].expand(*xy.shape)
    yy = gram(y, y, rotary=False).expand(*xy.shape)
    return torch.cat((torch.cat((xx, xy), -1), torch.cat((xy.mT, yy), -1)), -2)


def _spectral_rotary(a: Circuits, b: Circuits) -> Tensor:
    """The largest over frequency pairs.  conj(l) ⊗ r − conj(l') ⊗ r' has rank two: σ² solves σ⁴ − f σ² + e = 0.

    f is the squared Frobenius norm, and e the product of the Gram determinants of (l, l') and (r, r').
    """
    left, right = cross(a.left, b.left, rotary=True), cross(a.right, b.right, rotary=True)
    aa, bb = ([gram(x, x, rotary=True).real for x in (c.left, c.right)] for c in (a, b))
    ll, rr = (x[:, :, None, None] for x in aa)
    f = ll * rr + bb[0] * bb[1] - 2 * (left.conj() * right).real
    e = (ll * bb[0] - left.abs().square()).clamp_min(0) * (rr * bb[1] - right.abs().square()).clamp_min(0)
    square = (f + (f.square() - 4 * e).clamp_min(0).sqrt()) / 2
    return square.clamp_min(0).sqrt().amax(-1)


METRICS: dict[str, Metric] = {
    "frobenius-squared": _frobenius_squared,
    "frobenius": lambda a, b: _frobenius_squared(a, b).clamp_min(0).sqrt(),
    "cosine": _cosine,
    "normalised": lambda a, b: (2 * _cosine(a, b)).clamp_min(0).sqrt(),
    "spectral": _spectral,
}


def head_costs(pair: Pair, maps: Maps, heads: str, metric: Metric) -> Tensor:
    """Summed circuit distances between every query head of A and of B, (h, g, h, g)."""
    inside = inner_spaces(pair.spec, heads)
    still = {name: g for name, g in maps.items() if name not in (heads, group_space(pair.spec, heads), *inside)}
    costs = [
        metric(circuits_of(pair, {}, inner, of_b=False), circuits_of(pair, still, inner, of_b=True)) for inner in inside
    ]
    return torch.stack(costs).sum(0)


def match_heads(pair: Pair, maps: Maps, heads: str, metric: Metric) -> dict[str, Map]:
    """The assignment of heads, and of queries inside heads, that brings the circuits closest."""
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
