"""Hidden units by resemblance: Σ w |a − g b|² over everything a unit reads and writes, as for every other space.

Activation matching adds what the units say to what they read and write, each as a correlation.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from onebasin import families as fam
from onebasin.families import Family, Rep
from onebasin.linalg import assign, positive_scale
from onebasin.maps import Map, map_of
from onebasin.maps.indexed import Indexed
from onebasin.maps.monomial import matched
from onebasin.match.moments import Moment, Moments, cross_moment, weight_moments
from onebasin.match.pair import Maps, Pair
from onebasin.match.solve import solve


def correlation(moment: Moment) -> Tensor:
    """C_ij / √(G_a,ii G_b,jj), zero where a unit is dead."""
    size = moment.gram_a.diagonal()[:, None] * moment.gram_b.diagonal()[None, :]
    return torch.where(size > 0, moment.cross / size.clamp_min(torch.finfo(size.dtype).tiny).sqrt(), 0.0)


def reorders(family: Family) -> bool:
    """Whether units keep their identity and may change places; what is left of other families is solved as it is."""
    return fam.PERMUTATION <= family <= fam.MONOMIAL


def match_units(family: Family, weights: Moments, activations: Moment | None = None) -> Map:
    """Assign units by mean weight cosine plus activation correlation; then give each pair its best scale and sign.

    Parts that only permute (a gate) have no sign to choose; the others flip together where the family is signed.
    """
    if not reorders(family):
        return solve(family, weights)
    cosines = {rep: correlation(moment) / len(weights.of) for rep, moment in weights.of.items()}
    fixed = cosines.pop(Rep.PERM, torch.zeros_like(weights.cross))
    turning = torch.stack(list(cosines.values())).sum(0)
    if activations is not None:
        turning = turning + correlation(activations)
    signed = family >= fam.SIGNS
    index = assign(fixed + (turning.abs() if signed else turning))
    sign = torch.where(matched(turning, index) < 0, -1.0, 1.0).to(turning) if signed else torch.ones_like(turning[0])
    return with_scales(family, index, sign, weights)


def with_scales(family: Family, index: Tensor, sign: Tensor, weights: Moments) -> Map:
    """The map that pairs units by `index` with these signs, at the best scale of each pair where scales are free."""
    kind = map_of(family)
    assert issubclass(kind, Indexed)
    if not family >= fam.POSITIVE_SCALING:
        return kind(index, sign)
    v, c = weights.get(Rep.VEC), weights.get(Rep.COV)
    scale, _ = positive_scale(
        sign * matched(v.cross, index),
        v.gram_b.diagonal()[index],
        sign * matched(c.cross, index),
        c.gram_b.diagonal()[index],
    )
    return kind(index, sign * scale)


def solve_units(pair: Pair, maps: Maps, space: str, family: Family, emphasis: Mapping[str, float]) -> Map:
    """The map of hidden units that brings them closest, with B moved by all the other maps."""
    if family <= fam.ORTHOGONAL:
        return map_of(family).project(cross_moment(pair, maps, space, emphasis))
    return solve(family, weight_moments(pair, maps, space, emphasis))
