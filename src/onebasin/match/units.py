"""Hidden units by resemblance: Σ w |a − g b|² over everything a unit reads and writes, as for every other space.

Activation matching adds what the units say to what they read and write, each as a correlation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

import torch
from torch import Tensor

from onebasin import families as fam
from onebasin.families import Family, Rep
from onebasin.linalg import assign, positive_scale
from onebasin.linalg.workers import Workers
from onebasin.maps import Map, map_of
from onebasin.maps.indexed import Indexed
from onebasin.maps.monomial import matched
from onebasin.match.moments import Overlap, overlaps, paired_columns, weight_moments
from onebasin.match.pair import Maps, Pair
from onebasin.match.solve import free_scale, scaled_scores, solve

SCORED = (fam.PERMUTATION, fam.SCALED_PERMUTATION, fam.MONOMIAL)


def reorders(family: Family) -> bool:
    """Whether units keep their identity and may change places; what is left of other families is solved as it is."""
    return fam.PERMUTATION <= family <= fam.MONOMIAL


def solve_units_that_fired(
    pair: Pair, maps: Maps, space: str, family: Family, emphasis: Mapping[str, float], fired: Overlap | None
) -> Map:
    """The map of hidden units by what they read and write, and by what they said where somebody looked."""
    if not reorders(family):
        return solve(family, weight_moments(pair, maps, space, emphasis))
    return match_units(family, overlaps(pair, maps, space, emphasis), fired)


def match_units(family: Family, weights: Mapping[Rep, Overlap], fired: Overlap | None = None) -> Map:
    """Assign units by mean weight cosine plus activation correlation; then give each pair its best scale and sign.

    Parts that only permute (a gate) have no sign to choose; the others flip together where the family is signed.
    """
    cosines = {rep: overlap.correlation() / len(weights) for rep, overlap in weights.items()}
    fixed = cosines.pop(Rep.PERM, torch.zeros_like(next(iter(cosines.values()))))
    turning = sum(cosines.values(), torch.zeros_like(fixed))
    if fired is not None:
        turning = turning + fired.correlation()
    signed = family >= fam.SIGNS
    index = assign(fixed + (turning.abs() if signed else turning))
    sign = torch.where(matched(turning, index) < 0, -1.0, 1.0).to(turning) if signed else torch.ones_like(turning[0])
    return with_scales(family, index, sign, weights)


def with_scales(family: Family, index: Tensor, sign: Tensor, weights: Mapping[Rep, Overlap]) -> Map:
    """The map that pairs units by `index` with these signs, at the best scale of each pair where scales are free."""
    kind = map_of(family)
    assert issubclass(kind, Indexed)
    if not family >= fam.POSITIVE_SCALING:
        return kind(index, sign)
    v, c = weights[Rep.VEC], weights[Rep.COV]
    cross_v, cross_c = (sign * matched(x.cross, index) for x in (v, c))
    scale, _ = positive_scale(cross_v, v.squares_b[index], cross_c, c.squares_b[index])
    return kind(index, sign * scale)


def solve_units(
    pair: Pair, maps: Maps, space: str, family: Family, emphasis: Mapping[str, float], workers: Workers
) -> Callable[[Pair, Maps], Map]:
    """The map of hidden units that brings them closest, with B moved by all the other maps.

    What is returned waits for it, and needs the page once more: for the scales of the pairs that were chosen.
    """
    if family not in SCORED:
        solved = solve(family, weight_moments(pair, maps, space, emphasis))
        return lambda pair, maps: solved
    pending = workers.begin(unit_scores(pair, maps, space, family, emphasis))

    def ready(pair: Pair, maps: Maps) -> Map:
        index = pending(lambda: unit_scores(pair, maps, space, family, emphasis))
        return scaled_pairs(pair, maps, space, family, emphasis, index)

    return ready


def solve_fibres(pair: Pair, maps: Maps, space: str, family: Family, emphasis: Mapping[str, float]) -> Map:
    """The same for the units of all experts, each by itself, as the experts arrive under `maps`."""
    if family not in SCORED:
        return solve(family, weight_moments(pair, maps, space, emphasis))
    index = assign(unit_scores(pair, maps, space, family, emphasis))
    return scaled_pairs(pair, maps, space, family, emphasis, index)


def scaled_pairs(
    pair: Pair, maps: Maps, space: str, family: Family, emphasis: Mapping[str, float], index: Tensor
) -> Map:
    """The map that pairs units by `index` (f?, n), at the best scale of each pair where scales are free."""
    kind, none = map_of(family), torch.zeros(index.shape, dtype=torch.float64, device=index.device)
    if family == fam.PERMUTATION:
        return kind.from_tensors({"index": index, "scale": none + 1})
    cross, squares = dict.fromkeys(Rep, none), dict.fromkeys(Rep, none)
    for rep, a, b, w in paired_columns(pair, maps, space, emphasis):
        b = b.take_along_dim(index.unsqueeze(-1), -2)
        cross[rep] = cross[rep] + w * (a * b).sum(-1)
        squares[rep] = squares[rep] + w * b.square().sum(-1)
    v, c = Rep.VEC, Rep.COV
    scale, _ = free_scale(family)(cross[v], squares[v], cross[c], squares[c])
    return kind.from_tensors({"index": index, "scale": scale})


def unit_scores(pair: Pair, maps: Maps, space: str, family: Family, emphasis: Mapping[str, float]) -> Tensor:
    """How well units of A and B go together, (f?, n, n): at the best scale of the two where scales are free."""
    found = overlaps(pair, maps, space, emphasis)
    if family == fam.PERMUTATION:
        return reduce(Tensor.add_, (x.cross for x in found.values()))
    v, c, fixed = (found.get(rep) for rep in (Rep.VEC, Rep.COV, Rep.PERM))
    some = next(iter(found.values()))
    v, c = v or some.zero(), c or some.zero()
    return scaled_scores(family, torch.zeros_like(v.cross) if fixed is None else fixed.cross.mul_(2), v, c)
