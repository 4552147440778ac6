"""Distances between the circuits of heads that the second paper compares; matching takes the squared Frobenius one."""

from __future__ import annotations

import torch
from torch import Tensor

from onebasin.match.circuits import Circuits, cross, gram
from onebasin.match.heads import Metric, frobenius_squared


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
    "frobenius-squared": frobenius_squared,
    "frobenius": lambda a, b: frobenius_squared(a, b).clamp_min(0).sqrt(),
    "cosine": _cosine,
    "normalised": lambda a, b: (2 * _cosine(a, b)).clamp_min(0).sqrt(),
    "spectral": _spectral,
}
