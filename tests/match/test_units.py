"""Units with a gate: the assignment is the best of all, with every pair at its best scale."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from scipy.optimize import minimize_scalar

from onebasin.families import MONOMIAL, PERMUTATION_SIGN, SCALED_PERMUTATION, SIGNED_PERMUTATION, Family, Rep
from onebasin.match.moments import Moment, Moments
from onebasin.match.solve import solve

N = 4
Parts = dict[Rep, torch.Tensor]


def units(seed: int) -> tuple[Parts, Parts]:
    """What the units of A and of B write, read and gate with, (n, features) each."""
    generator = torch.Generator().manual_seed(seed)
    a, b = ({rep: torch.randn(N, 3, generator=generator, dtype=torch.float64) for rep in Rep} for _ in range(2))
    return a, b


def closest(a: Parts, b: Parts, i: int, j: int, signs: tuple[int, ...]) -> float:
    """min over r of |a − r b|² + |a' − b'/r|² + |gate − gate|² for unit i of A and unit j of B, searched."""

    def apart(t: float, sign: int) -> float:
        r = sign * torch.tensor(t, dtype=torch.float64).exp()
        ends = ((Rep.VEC, r), (Rep.COV, 1 / r), (Rep.PERM, 1.0))
        return float(sum((a[rep][i] - x * b[rep][j]).square().sum() for rep, x in ends))

    starts = [(-4 + k, -3 + k) for k in range(7)]
    return min(minimize_scalar(apart, bounds=s, args=(x,), method="bounded").fun for s in starts for x in signs)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("family", "signs"), [(MONOMIAL, (1, -1)), (SCALED_PERMUTATION, (1,))], ids=["signed", "plain"]
)
def test_gated_units_are_matched_by_the_whole_distance(family: Family, signs: tuple[int, ...], seed: int):
    a, b = units(seed)
    distance = [[closest(a, b, i, j, signs) for j in range(N)] for i in range(N)]
    best = min(permutations(range(N)), key=lambda order: sum(distance[i][j] for i, j in enumerate(order)))
    found = solve(family, Moments({rep: Moment.of(a[rep], b[rep]) for rep in Rep}))
    assert tuple(found.tensors()["index"].tolist()) == best


@pytest.mark.parametrize("family", [SIGNED_PERMUTATION, PERMUTATION_SIGN])
def test_units_keep_their_sign_where_both_would_do(family: Family):
    """Nothing but gates, which have no sign, says where they belong."""
    a, _ = units(0)
    nothing = torch.zeros(N, 3, dtype=torch.float64)
    order = torch.tensor([2, 0, 3, 1])
    sides = {rep: (a[rep], a[rep][order]) if rep is Rep.PERM else (nothing, nothing) for rep in Rep}
    found = solve(family, Moments({rep: Moment.of(*both) for rep, both in sides.items()})).tensors()
    assert order[found["index"]].tolist() == [*range(N)]
    assert (found["scale"] == 1).all()
