"""The best map of a family for given moments:  argmin Σ |a − g b|²  over vectors, covectors and permutation parts."""

from __future__ import annotations

import torch
from torch import Tensor

from onebasin import families as fam
from onebasin.families import Family, Rep
from onebasin.linalg import assign, complex_scale, positive_scale, signed_scale, two_sided
from onebasin.maps import Invertible, Map, Monomial, PairScaling, Rotary, ScaledPermutation, map_of
from onebasin.maps.monomial import matched
from onebasin.maps.rotary import pair_blocks
from onebasin.match.moments import Moment, Moments


def solve(family: Family, moments: Moments, start: Map | None = None) -> Map:
    """Isometric families maximise ⟨C, g⟩, which is projection; the others trade vectors against covectors.

    `start` is a map to begin from where the solution is iterative.
    """
    v, c = moments.get(Rep.VEC), moments.get(Rep.COV)
    if family == fam.INVERTIBLE:
        return _invertible(v, c, start)
    if family == fam.ROTARY:
        return _rotary(v, c)
    if family in (fam.MONOMIAL, fam.SCALED_PERMUTATION):
        return _scaled_units(family, v, c, moments.get(Rep.PERM))
    if family == fam.PAIR_SCALING:
        return _pair_scaling(v, c)
    return map_of(family).project(moments.cross)


def _batched(tensor: Tensor) -> Tensor:
    return tensor if tensor.ndim == 3 else tensor[None]


def _invertible(v: Moment, c: Moment, start: Map | None) -> Map:
    known = None if start is None else _batched(start.dense())
    g = two_sided(*(_batched(x) for x in (v.cross, v.gram_b, c.cross, c.gram_b)), start=known)
    return Invertible(g if v.cross.ndim == 3 else g[0])


def _pairs(moment: Moment) -> tuple[Tensor, Tensor]:
    """Complex C = Σ a conj(b) and G = Σ |b|² of each frequency pair (j, j + n/2)."""
    n = moment.cross.shape[-1] // 2
    blocks = pair_blocks(moment.cross)
    cross = torch.complex(blocks[..., 0, 0, :] + blocks[..., 1, 1, :], blocks[..., 1, 0, :] - blocks[..., 0, 1, :])
    gram = moment.gram_b.diagonal(dim1=-2, dim2=-1).unflatten(-1, (2, n)).sum(-2)
    return cross, gram


def _rotary(v: Moment, c: Moment) -> Map:
    z = complex_scale(*_pairs(v), *_pairs(c))
    return Rotary(z.real, z.imag)


def _pair_scaling(v: Moment, c: Moment) -> Map:
    (cross_v, gram_v), (cross_c, gram_c) = _pairs(v), _pairs(c)
    scale, _ = signed_scale(cross_v.real, gram_v, cross_c.real, gram_c)
    return PairScaling(torch.arange(2 * scale.shape[-1], device=scale.device), scale.repeat(2))


def _scaled_units(family: Family, v: Moment, c: Moment, p: Moment) -> Map:
    """Assign units by the distance that is left when each pair takes its best scale."""
    gram_v, gram_c = v.gram_b.diagonal(), c.gram_b.diagonal()
    free = signed_scale if family == fam.MONOMIAL else positive_scale
    scale, distance = free(v.cross, gram_v.expand_as(v.cross), c.cross, gram_c.expand_as(c.cross))
    index = assign(2 * p.cross - distance)
    kind = Monomial if family == fam.MONOMIAL else ScaledPermutation
    return kind(index, matched(scale, index))
