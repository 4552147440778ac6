"""Hidden units by resemblance, in one of three ways.

    "inner"   Σ w |a − g b|² over everything a unit reads and writes, as for every other space (P1's paper)
    "cosine"  the cosine of what two units read, of what they write, and of their gates, on average
    "l1"      the L1 distance between their rows [w_in; b_in; w_out], normalised (P1's code)

Where units have a free scale, all three compare over it: "inner" at the best scale of each pair, the others by
normalising what is read, what is written and the gate apart (a row is else normalised as one).  Where they have a free
sign, each pair takes the better one; a gate has none.  The scale of the pairs that are chosen is the best in "inner".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from onebasin import families as fam
from onebasin.families import Family, Rep
from onebasin.linalg import assign, positive_scale
from onebasin.maps import Map, map_of
from onebasin.maps.indexed import Indexed
from onebasin.maps.monomial import matched
from onebasin.match.moments import Moment, Moments, cross_moment, paired_columns
from onebasin.match.pair import Maps, Pair
from onebasin.match.solve import solve

Rows = Mapping[Rep, tuple[Tensor, Tensor]]  # what units of A and of B read and write, (n, features) each


def correlation(moment: Moment) -> Tensor:
    """C_ij / √(G_a,ii G_b,jj), zero where a unit is dead."""
    size = moment.gram_a.diagonal()[:, None] * moment.gram_b.diagonal()[None, :]
    return torch.where(size > 0, moment.cross / size.clamp_min(torch.finfo(size.dtype).tiny).sqrt(), 0.0)


def _reorders(family: Family) -> bool:
    """Whether units keep their identity and may change places; what is left of other families is solved as it is."""
    return fam.PERMUTATION <= family <= fam.MONOMIAL


def match_units(family: Family, weights: Moments, activations: Moment | None = None) -> Map:
    """Assign units by mean weight cosine plus activation correlation; then give each pair its best scale and sign.

    Parts that only permute (a gate) have no sign to choose; the others flip together where the family is signed.
    """
    if not _reorders(family):
        return solve(family, weights)
    cosines = {rep: correlation(moment) / len(weights.of) for rep, moment in weights.of.items()}
    fixed = cosines.pop(Rep.PERM, torch.zeros_like(weights.cross))
    turning = torch.stack(list(cosines.values())).sum(0)
    if activations is not None:
        turning = turning + correlation(activations)
    signed = family >= fam.SIGNS
    index = assign(fixed + (turning.abs() if signed else turning))
    sign = torch.where(matched(turning, index) < 0, -1.0, 1.0).to(turning) if signed else torch.ones_like(turning[0])
    return _scaled(family, index, sign, weights)


def match_rows(family: Family, rows: Rows, weights: Moments) -> Map:
    """Assign units by the L1 distance of their normalised rows; then give each pair its best scale."""
    ours, theirs = (_normalised({rep: both[i] for rep, both in rows.items()}, family) for i in (0, 1))

    def apart(reps: Iterable[Rep], sign: int = 1) -> Tensor:
        found = [torch.cdist(ours[rep], sign * theirs[rep], p=1) for rep in reps]
        return torch.stack(found).sum(0) if found else torch.zeros_like(weights.cross)

    turning = [rep for rep in rows if rep is not Rep.PERM]
    fixed, plus = apart(rows.keys() - turning), apart(turning)
    minus = apart(turning, -1) if family >= fam.SIGNS else plus
    index = assign(-(fixed + torch.minimum(plus, minus)))
    sign = torch.where(matched(minus - plus, index) < 0, -1.0, 1.0).to(plus)
    return _scaled(family, index, sign, weights)


def _normalised(parts: dict[Rep, Tensor], family: Family) -> dict[Rep, Tensor]:
    """Rows of unit length, each part by itself where scales are free; a dead unit stays zero."""
    sizes = {rep: part.norm(dim=1, keepdim=True) for rep, part in parts.items()}
    if not family >= fam.POSITIVE_SCALING:
        sizes = dict.fromkeys(parts, torch.stack(list(sizes.values())).norm(dim=0))
    return {rep: part / torch.where(sizes[rep] > 0, sizes[rep], 1.0) for rep, part in parts.items()}


def _scaled(family: Family, index: Tensor, sign: Tensor, weights: Moments) -> Map:
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


def solve_units(pair: Pair, maps: Maps, space: str, family: Family, weight: Mapping[str, float], cost: str) -> Map:
    """The map of hidden units that brings them closest in `cost`, with B moved by all the other maps."""
    if cost == "inner" and family <= fam.ORTHOGONAL:
        return map_of(family).project(cross_moment(pair, maps, space, weight))
    found = list(paired_columns(pair, maps, space, weight))
    moments = sum((Moments({rep: Moment.of(a, b, w)}) for rep, a, b, w in found), Moments())
    if cost == "inner" or not _reorders(family):
        return solve(family, moments)
    if cost == "cosine":
        return match_units(family, moments)
    rows = {}
    for rep in moments.of:
        ours, theirs = zip(*((a, b) for its, a, b, _ in found if its is rep), strict=True)
        rows[rep] = torch.cat(ours, 1), torch.cat(theirs, 1)
    return match_rows(family, rows, moments)
