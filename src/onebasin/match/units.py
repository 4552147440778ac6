"""Hidden units by resemblance: the cosine between what two units read and write, and how they fire together."""

from __future__ import annotations

import torch
from torch import Tensor

from onebasin import families as fam
from onebasin.families import Family, Rep
from onebasin.linalg import assign, positive_scale
from onebasin.maps import Map, map_of
from onebasin.maps.indexed import Indexed
from onebasin.maps.monomial import matched
from onebasin.match.moments import Moment, Moments


def correlation(moment: Moment) -> Tensor:
    """C_ij / √(G_a,ii G_b,jj), zero where a unit is dead."""
    size = moment.gram_a.diagonal()[:, None] * moment.gram_b.diagonal()[None, :]
    return torch.where(size > 0, moment.cross / size.clamp_min(torch.finfo(size.dtype).tiny).sqrt(), 0.0)


def match_units(family: Family, weights: Moments, activations: Moment | None = None) -> Map:
    """Assign units by mean weight cosine plus activation correlation; then give each pair its best scale and sign.

    Parts that only permute (a gate) have no sign to choose; the others flip together where the family is signed.
    """
    cosines = {rep: correlation(moment) / len(weights.of) for rep, moment in weights.of.items()}
    fixed = cosines.pop(Rep.PERM, torch.zeros_like(weights.cross))
    turning = torch.stack(list(cosines.values())).sum(0)
    if activations is not None:
        turning = turning + correlation(activations)
    signed = family >= fam.SIGNS
    index = assign(fixed + (turning.abs() if signed else turning))
    sign = torch.where(matched(turning, index) < 0, -1.0, 1.0).to(turning) if signed else torch.ones_like(turning[0])
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
