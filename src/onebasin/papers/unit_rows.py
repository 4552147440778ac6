"""Hidden units by the L1 distance between their normalised rows [w_in; b_in; w_out], as in the first paper's code.

Where units have a free scale, what is read, what is written and the gate are normalised apart (a row is else normalised
as one).  Where they have a free sign, each pair takes the better one; a gate has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from onebasin import families as fam
from onebasin.families import Family, Rep
from onebasin.linalg import assign
from onebasin.linalg.workers import Workers
from onebasin.maps import Map
from onebasin.maps.monomial import matched
from onebasin.match.moments import Moment, Moments, paired_columns
from onebasin.match.pair import Maps, Pair
from onebasin.match.solve import solve
from onebasin.match.units import reorders, with_scales

Rows = Mapping[Rep, tuple[Tensor, Tensor]]  # what units of A and of B read and write, (n, features) each


def solve_units_by_rows(
    pair: Pair, maps: Maps, space: str, family: Family, emphasis: Mapping[str, float], workers: Workers
) -> Callable[[Pair, Maps], Map]:
    """The map of hidden units that brings their rows closest, with B moved by all the other maps."""
    found = _solve(pair, maps, space, family, emphasis)
    return lambda pair, maps: found


def _solve(pair: Pair, maps: Maps, space: str, family: Family, emphasis: Mapping[str, float]) -> Map:
    columns = list(paired_columns(pair, maps, space, emphasis))
    moments = sum((Moments({rep: Moment.of(a, b, w)}) for rep, a, b, w in columns), Moments())
    if not reorders(family):
        return solve(family, moments)
    rows = {}
    for rep in moments.of:
        ours, theirs = zip(*((a, b) for its, a, b, _ in columns if its is rep), strict=True)
        rows[rep] = torch.cat(ours, 1), torch.cat(theirs, 1)
    return match_rows(family, rows, moments)


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
    return with_scales(family, index, sign, {rep: moment.overlap for rep, moment in weights.of.items()})


def _normalised(parts: dict[Rep, Tensor], family: Family) -> dict[Rep, Tensor]:
    """Rows of unit length, each part by itself where scales are free; a dead unit stays zero."""
    sizes = {rep: part.norm(dim=1, keepdim=True) for rep, part in parts.items()}
    if not family >= fam.POSITIVE_SCALING:
        sizes = dict.fromkeys(parts, torch.stack(list(sizes.values())).norm(dim=0))
    return {rep: part / torch.where(sizes[rep] > 0, sizes[rep], 1.0) for rep, part in parts.items()}
