"""The best map of a family for given moments:  argmin Σ |a − g b|²  over vectors, covectors and permutation parts."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from onebasin import families as fam
from onebasin.errors import NotInFamily
from onebasin.families import Family, Rep
from onebasin.linalg import assign, complex_scale, positive_scale, signed_scale, two_sided
from onebasin.maps import Invertible, Map, Rotary, map_of
from onebasin.maps.monomial import matched
from onebasin.maps.rotary import pair_blocks
from onebasin.match.moments import Moment, Moments, Overlap

ON_CPU, ON_GPU = 2**17, 2**22  # pairs of units at a time: as many as caches hold, or as keep a GPU busy
STEPS = 2  # towards the best scale of a pair of units that is only considered; a pair that is chosen gets all


def solve(family: Family, moments: Moments, start: Map | None = None, condition: float = math.inf) -> Map:
    """The best member of `family`.  `start` is where an iteration begins, and decides what moments leave open.

    `condition` bounds that of dense maps.  Isometric families maximise ⟨C, g⟩, which is projection; the others trade
    vectors against covectors.
    """
    if family not in SOLVERS:
        raise NotInFamily(
            f"The family '{family}' has no best map for given moments",
            expected=", ".join(map(str, SOLVERS)),
            found=family,
            next_step="solve in one of these families, and lift the map that is found",
        )
    return SOLVERS[family](family, moments, start, condition)


def _isometric(family: Family, moments: Moments, start: Map | None, condition: float) -> Map:
    return map_of(family).project(moments.cross, near=None if start is None else start.dense())


def _batched(tensor: Tensor) -> Tensor:
    return tensor if tensor.ndim == 3 else tensor[None]


def _both(moments: Moments) -> tuple[Moment, Moment]:
    return moments.get(Rep.VEC), moments.get(Rep.COV)


def _invertible(family: Family, moments: Moments, start: Map | None, condition: float) -> Map:
    v, c = _both(moments)
    known = None if start is None else _batched(start.dense())
    g = two_sided(*(_batched(x) for x in (v.cross, v.gram_b, c.cross, c.gram_b)), start=known, condition=condition)
    return Invertible(g if v.cross.ndim == 3 else g[0])


def _pairs(moment: Moment) -> tuple[Tensor, Tensor]:
    """Complex C = Σ a conj(b) and G = Σ |b|² of each frequency pair (j, j + n/2)."""
    n = moment.cross.shape[-1] // 2
    blocks = pair_blocks(moment.cross)
    cross = torch.complex(blocks[..., 0, 0, :] + blocks[..., 1, 1, :], blocks[..., 1, 0, :] - blocks[..., 0, 1, :])
    gram = moment.gram_b.diagonal(dim1=-2, dim2=-1).unflatten(-1, (2, n)).sum(-2)
    return cross, gram


def _rotary(family: Family, moments: Moments, start: Map | None, condition: float) -> Map:
    v, c = _both(moments)
    z = complex_scale(*_pairs(v), *_pairs(c))
    return Rotary(z.real, z.imag)


def _diagonal(family: Family, scale: Tensor) -> Map:
    index = torch.arange(scale.shape[-1], device=scale.device).expand_as(scale).clone()
    return map_of(family).from_tensors({"index": index, "scale": scale})


def _pair_scaling(family: Family, moments: Moments, start: Map | None, condition: float) -> Map:
    (cross_v, gram_v), (cross_c, gram_c) = map(_pairs, _both(moments))
    scale, _ = signed_scale(cross_v.real, gram_v, cross_c.real, gram_c)
    return _diagonal(family, scale.tile(2))


def _scaling(family: Family, moments: Moments, start: Map | None, condition: float) -> Map:
    """The best scale of every unit by itself."""
    parts = [x.diagonal(dim1=-2, dim2=-1) for moment in _both(moments) for x in (moment.cross, moment.gram_b)]
    scale, _ = free_scale(family)(*parts)
    return _diagonal(family, scale)


def _signs(family: Family, moments: Moments, start: Map | None, condition: float) -> Map:
    """Signs alone: what only permutes does not see them."""
    v, c = _both(moments)
    return map_of(family).project(v.cross + c.cross)


def _scaled_units(family: Family, moments: Moments, start: Map | None, condition: float) -> Map:
    """Assign units by the distance that is left when each pair takes its best scale."""
    of = {rep: moments.get(rep).overlap for rep in Rep}
    index = assign(scaled_scores(family, 2 * of[Rep.PERM].cross, of[Rep.VEC], of[Rep.COV]))
    chosen = [x for rep in (Rep.VEC, Rep.COV) for x in (matched(of[rep].cross, index), of[rep].squares_b[index])]
    scale, _ = free_scale(family)(*chosen)
    return map_of(family).from_tensors({"index": index, "scale": scale})


def scaled_scores(family: Family, scores: Tensor, v: Overlap, c: Overlap) -> Tensor:
    """2 P − min_r |a − r b|² of all pairs of units, some rows at a time, in place of the `scores` 2 P."""
    rows = max(1, (ON_CPU if scores.device.type == "cpu" else ON_GPU) // scores.shape[-1])
    scale, (by_v, by_c) = free_scale(family), (x.squares_b.unsqueeze(-2) for x in (v, c))
    for first in range(0, scores.shape[-2], rows):
        some = slice(first, first + rows)
        cross_v, cross_c = (x.cross[..., some, :] for x in (v, c))
        scores[..., some, :] -= scale(cross_v, by_v.expand_as(cross_v), cross_c, by_c.expand_as(cross_c), STEPS)[1]
    return scores


def free_scale(family: Family) -> Callable[..., tuple[Tensor, Tensor]]:
    return signed_scale if family >= fam.SIGNS else positive_scale


def _signed_units(family: Family, moments: Moments, start: Map | None, condition: float) -> Map:
    """Assign units by the better of their two signs, each by itself or all together."""
    v, c = _both(moments)
    turning, fixed = v.cross + c.cross, moments.get(Rep.PERM).cross
    if family == fam.SIGNED_PERMUTATION:
        index = assign(fixed + turning.abs())
        sign = torch.where(matched(turning, index) < 0, -1.0, 1.0)
    else:
        plus, minus = assign(fixed + turning), assign(fixed - turning)
        gains = matched(fixed + turning, plus).sum(-1), matched(fixed - turning, minus).sum(-1)
        keep = (gains[0] >= gains[1]).unsqueeze(-1).expand_as(plus)
        index, sign = torch.where(keep, plus, minus), torch.where(keep, 1.0, -1.0)
    return map_of(family).from_tensors({"index": index, "scale": sign.to(turning.dtype)})


Solver = Callable[[Family, Moments, Map | None, float], Map]

SOLVERS: dict[Family, Solver] = {
    fam.INVERTIBLE: _invertible,
    fam.ROTARY: _rotary,
    fam.PAIR_SCALING: _pair_scaling,
    **dict.fromkeys((fam.MONOMIAL, fam.SCALED_PERMUTATION), _scaled_units),
    **dict.fromkeys((fam.SIGNED_SCALING, fam.POSITIVE_SCALING), _scaling),
    **dict.fromkeys((fam.SIGNED_PERMUTATION, fam.PERMUTATION_SIGN), _signed_units),
    **dict.fromkeys((fam.SIGNS, fam.PAIR_SIGNS, fam.GLOBAL_SIGN), _signs),
    **dict.fromkeys((fam.ORTHOGONAL, fam.ORTHOGONAL_ONES, fam.PAIR_ROTATION, fam.PERMUTATION, fam.TRIVIAL), _isometric),
}
