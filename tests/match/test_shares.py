"""Semi-permutations: what was split is found again, and nothing simpler comes closer."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from onebasin import families as fam
from onebasin.families import Rep
from onebasin.match.moments import Overlap
from onebasin.match.shares import Problem, best_split, covering

FAMILIES = [fam.PERMUTATION, fam.SCALED_PERMUTATION, fam.MONOMIAL]
FEATURES = 10


def normal(g: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def split_units(family, m: int, n: int, seed: int, noise: float):
    """(A's vectors, B's, the pattern): A is a random semi-permutation of B, and noise."""
    g = torch.Generator().manual_seed(seed)
    b = {rep: normal(g, n, FEATURES) for rep in Rep}
    source = torch.cat((torch.arange(n), torch.randint(n, (m - n,), generator=g)))[torch.randperm(m, generator=g)]
    share = torch.rand(m, generator=g, dtype=torch.float64) + 0.1
    share = share / torch.zeros(n, dtype=torch.float64).scatter_add(0, source, share)[source]
    scale = (0.5 * normal(g, m)).exp() if family >= fam.POSITIVE_SCALING else torch.ones_like(share)
    if family >= fam.SIGNS:
        scale = scale * torch.where(normal(g, m) < 0, -1.0, 1.0)
    factors = {Rep.VEC: scale, Rep.COV: share / scale, Rep.PERM: torch.ones_like(share)}
    a = {rep: factors[rep][:, None] * b[rep][source] + noise * normal(g, m, FEATURES) for rep in Rep}
    return a, b, source


def overlaps(a, b):
    return {rep: Overlap(a[rep] @ b[rep].mT, a[rep].square().sum(-1), b[rep].square().sum(-1)) for rep in a}


def distance(split, a, b) -> float:
    """Σ |a − copy of b|², from the vectors themselves."""
    live = (split.source >= 0).double()
    factors = {Rep.VEC: split.s, Rep.COV: split.t, Rep.PERM: torch.ones_like(split.s)}
    return sum(float((a[rep] - (live * factors[rep])[:, None] * b[rep][split.source]).square().sum()) for rep in a)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("m", [7, 12])
def test_planted_splits_are_recovered(family, m):
    a, b, source = split_units(family, m, 5, seed=m, noise=0.0)
    found = best_split(family, overlaps(a, b))
    assert found.source.equal(source)
    assert distance(found, a, b) < 1e-9 * sum(float(x.square().sum()) for x in a.values())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("m", "n", "noise"), [(8, 8, 0.5), (9, 8, 1.0), (12, 5, 0.3), (20, 8, 2.0)])
def test_nothing_simpler_comes_closer(family, m, n, noise):
    """Controls: filled up with nothing, shared out evenly, and (but for noise) what was planted."""
    a, b, source = split_units(family, m, n, seed=m, noise=noise)
    problem = Problem(family, overlaps(a, b))
    found = best_split(family, overlaps(a, b))
    assert found.cost + problem.size == pytest.approx(distance(found, a, b), rel=1e-9)
    shares = torch.zeros(n, dtype=torch.float64).scatter_add(0, found.source.clamp_min(0), found.s * found.t)
    torch.testing.assert_close(shares, torch.ones(n, dtype=torch.float64), atol=1e-12, rtol=0)
    zero, even, _ = (problem.split(start)[0] for start in problem.starts())
    planted, _, _ = problem.split(source)
    for other in (zero, even, planted):
        assert found.cost <= other.cost + 1e-9 * problem.size
    if m > n and noise < 1:
        assert found.cost < min(zero.cost, even.cost) - 1e-3 * problem.size


@pytest.mark.parametrize("family", [fam.PERMUTATION, fam.SCALED_PERMUTATION])
def test_small_problems_end_at_the_best_of_all_patterns(family):
    a, b, _ = split_units(family, 4, 2, seed=1, noise=2.0)
    problem = Problem(family, overlaps(a, b))
    patterns = (torch.tensor(x) for x in product((-1, 0, 1), repeat=4) if {0, 1} <= set(x))
    best = min(problem.split(x)[0].cost for x in patterns)
    assert best_split(family, overlaps(a, b)).cost == pytest.approx(best, abs=1e-9 * problem.size)


def test_every_unit_has_a_place_and_the_cover_is_the_cheapest():
    g = torch.Generator().manual_seed(0)
    cost = normal(g, 5, 3) + 0.5
    source = covering(cost)
    assert {0, 1, 2} <= set(source.tolist())
    full = torch.cat((cost, torch.zeros(5, 1, dtype=torch.float64)), 1)  # the last column is none
    everything = (x for x in product(range(-1, 3), repeat=5) if {0, 1, 2} <= set(x))
    best = min(float(full[range(5), list(x)].sum()) for x in everything)
    assert float(full[range(5), source.tolist()].sum()) == pytest.approx(best)


@pytest.mark.parametrize("family", FAMILIES)
def test_dead_units_do_no_harm(family):
    a, b, _ = split_units(family, 9, 5, seed=3, noise=0.5)
    for rep in Rep:
        b[rep][2] = 0
        a[rep][4] = 0
    b[Rep.COV][3] = 0  # reads, and is read by nothing
    found = best_split(family, overlaps(a, b))
    assert found.s.isfinite().all()
    assert found.t.isfinite().all()
    shares = torch.zeros(5, dtype=torch.float64).scatter_add(0, found.source.clamp_min(0), found.s * found.t)
    torch.testing.assert_close(shares, torch.ones(5, dtype=torch.float64), atol=1e-9, rtol=0)
