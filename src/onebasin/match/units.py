"""Hidden units by resemblance: Σ w |a − g b|² over everything a unit reads and writes, as for every other space.

Activation matching adds what the units say to what they read and write, each as a correlation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from onebasin import families as fam
from onebasin.families import Family, Rep
from onebasin.linalg import assign, positive_scale
from onebasin.linalg.workers import Workers
from onebasin.maps import Map, map_of
from onebasin.maps.indexed import Indexed
from onebasin.maps.monomial import matched
from onebasin.match.moments import Moment, Moments, paired_columns, weight_moments
from onebasin.match.pair import Maps, Pair
from onebasin.match.solve import free_scale, scaled_scores, solve

SCORED = (fam.PERMUTATION, fam.SCALED_PERMUTATION, fam.MONOMIAL)


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
    chosen = index.unsqueeze(-1)
    cross, gram = _sums(pair, maps, space, emphasis, lambda a, b: (a * b.take_along_dim(chosen, -2)).sum(-1))
    if family == fam.PERMUTATION:
        return map_of(family).from_tensors({"index": index, "scale": torch.ones_like(gram[Rep.VEC])})
    v, c = Rep.VEC, Rep.COV
    scale, _ = free_scale(family)(cross[v], gram[v].gather(-1, index), cross[c], gram[c].gather(-1, index))
    return map_of(family).from_tensors({"index": index, "scale": scale})


def unit_scores(pair: Pair, maps: Maps, space: str, family: Family, emphasis: Mapping[str, float]) -> Tensor:
    """How well units of A and B go together, (f?, n, n): at the best scale of the two where scales are free."""
    cross, gram = _sums(pair, maps, space, emphasis, lambda a, b: a @ b.mT)
    if family == fam.PERMUTATION:
        return sum(cross.values(), torch.zeros_like(cross[Rep.VEC]))
    return scaled_scores(family, cross, gram)


def _sums(
    pair: Pair, maps: Maps, space: str, emphasis: Mapping[str, float], product: Callable[[Tensor, Tensor], Tensor]
) -> tuple[dict[Rep, Tensor], dict[Rep, Tensor]]:
    """Σ w product(a, b) and Σ w |b|² of every unit, by representation; zero for one that does not occur."""
    cross: dict[Rep, Tensor] = {}
    gram: dict[Rep, Tensor] = {}
    for rep, a, b, w in paired_columns(pair, maps, space, emphasis):
        found, size = w * product(a, b), w * b.square().sum(-1)
        cross[rep] = cross[rep] + found if rep in cross else found
        gram[rep] = gram[rep] + size if rep in gram else size
    none, nothing = (torch.zeros_like(next(iter(x.values()))) for x in (cross, gram))
    return {rep: cross.get(rep, none) for rep in Rep}, {rep: gram.get(rep, nothing) for rep in Rep}
