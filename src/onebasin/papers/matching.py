"""What the papers compare in matching: what the stream is fitted to, how much blocks count, how far heads are apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from onebasin.ensemble.emphasis import BALANCED
from onebasin.families import Rep
from onebasin.match.circuits import Circuits, circuits_of, cross, gram, inner_spaces, side
from onebasin.match.heads import Metric, frobenius_squared
from onebasin.match.options import group_of
from onebasin.match.pair import Maps, Pair
from onebasin.match.sizes import Sizes
from onebasin.match.strategy import Emphasis, balanced, balanced_circuits
from onebasin.match.stream import cross_of, zero_moment
from onebasin.spec import Leaf, ModelSpec

POWERS = {"raw": 0.0, "balanced": BALANCED, "angle": -1.0}


def p1_code_cross(pair: Pair, maps: Maps, space: str, emphasis: Mapping[str, float]) -> Tensor:
    """Σ w C over circuits as the first paper's code stores them: the query side of QK and the output side of OV.

    The code writes the circuits of h heads as one block [√(F/d) QK, I, I] of 3hF columns for queries, keys and values
    (F = D + 1, or D without biases; the root makes up for the scale 1/√F of heads that wide) and one block OV of hF
    columns.  The identities stand for the other sides: they add 2h I, which damps the step.
    """
    spec, total = pair.spec, zero_moment(pair, space)
    queries = {spec.linears[name].weight for attention in spec.attentions for name in attention.queries}
    outputs = {spec.linears[attention.output].weight for attention in spec.attentions}
    scores = [inner for inner in emphasis if any(leaf.name in queries for leaf in side(spec, inner, Rep.VEC))]
    for inner, w in emphasis.items():
        found = cross_of(pair, maps, space, inner, lambda leaf: leaf.name in queries | outputs)
        if inner in scores:
            of_a, size = circuits_of(pair, {}, inner, of_b=False), spec.spaces[inner].size
            parts = [x for x in inner_spaces(spec, spec.spaces[inner].base) if x in scores]
            width = sum(spec.spaces[x].size for x in parts)  # d; more than `size` where part of a head is rotary
            found *= of_a.features / width
            found.diagonal().add_(2 * of_a.square.numel() * size / width)
            found /= 3
        total += w * found
    return total


def leaf_emphasis(kind: str) -> Emphasis:
    """w for every leaf: (|A| |B|)^power, or for "columns" 1/n as in the first paper's code."""
    if kind == "columns":
        return lambda sizes: _columns(sizes.spec)
    return partial(balanced, power=POWERS[kind])


def circuit_emphasis(kind: str) -> Emphasis:
    """w for the circuits of every space inside heads, as above."""
    if kind == "columns":
        return _circuit_columns
    return partial(balanced_circuits, power=0.0 if kind == "raw" else (POWERS[kind] - 1) / 2)


def _circuit_columns(sizes: Sizes) -> dict[str, float]:
    return {space: 1 / columns for space, columns in sizes.columns.items()}


def _columns(spec: ModelSpec) -> dict[str, float]:
    """1/n for a block of n columns in a stream.  A bias counts with its matrix, the parameters of norms not at all."""
    matrix = {x.bias: x.weight for x in spec.linears.values() if x.bias is not None}
    in_norms = {name for norm in spec.norms.values() for name in (norm.gain, norm.bias)}
    return {
        name: 0.0 if name in in_norms else 1 / _width(spec, spec.leaves[matrix.get(name, name)]) for name in spec.leaves
    }


def _width(spec: ModelSpec, leaf: Leaf) -> int:
    """How many columns the leaf has, along its stream or else its first space."""
    dims = sorted(leaf.spaces(), key=lambda placed: group_of(spec, placed[1].space) != "residual")
    return math.prod(leaf.shape) // (leaf.shape[dims[0][0]] if dims else 1)


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
