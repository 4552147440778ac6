"""Shares of units that are split: the best there are, however they are looked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from onebasin.linalg import nearest_simplex
from onebasin.linalg.shares import Sides, best_shares

UNIT = torch.tensor([0, 0, 1, 2, 2, 2, 1, 2])
KINDS = [(False, False), (True, False), (True, True)]


def sides(seed: int, *, free: bool, signed: bool = False, agree: float = 0.0) -> Sides:
    """Random rows; those of one unit see the same unit."""
    g = torch.Generator().manual_seed(seed)
    cross_v, cross_c = (torch.randn(len(UNIT), generator=g, dtype=torch.float64) + agree for _ in range(2))
    gram_v, gram_c = (torch.rand(3, generator=g, dtype=torch.float64)[UNIT] + 0.3 for _ in range(2))
    return Sides(cross_v, gram_v, cross_c, gram_c, free, signed)


def summed(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(3, dtype=x.dtype).scatter_add(0, UNIT, x)


@pytest.mark.parametrize(("free", "signed"), KINDS)
@pytest.mark.parametrize("agree", [0.0, 1.0, 3.0])
def test_no_other_shares_cost_less(free, signed, agree):
    for seed in range(4):
        rows = sides(seed, free=free, signed=signed, agree=agree)
        s, t, _ = best_shares(rows, UNIT, 3)
        torch.testing.assert_close(summed(s * t), torch.ones(3, dtype=torch.float64), atol=1e-12, rtol=0)
        assert (s * t >= 0).all()
        assert signed or (s >= 0).all()
        least = summed(rows.cost(s, t))
        turned = rows.cross_v / rows.gram_v.sqrt() + rows.cross_c / rows.gram_c.sqrt() <= 0
        told = summed(~turned | torch.tensor(signed or not free)) > 0  # the others have no price
        assert agree == 0 or told.all()
        g = torch.Generator().manual_seed(seed)
        for spread in (1e-3, 0.1, 3.0):
            for _ in range(50):
                share = s * t * (spread * torch.randn(len(UNIT), generator=g, dtype=torch.float64)).exp()
                share = share + spread * 0.1 * torch.rand(len(UNIT), generator=g, dtype=torch.float64)
                share = share / summed(share)[UNIT]
                scale = torch.ones_like(s)
                if free:
                    scale = s.abs().clamp_min(0.1) * (spread * torch.randn(len(s), generator=g).double()).exp()
                    if signed:
                        scale = scale * torch.where(s < 0, -1.0, 1.0)
                assert (summed(rows.cost(scale, share / scale)) >= least - 1e-9)[told].all()


def test_without_scales_shares_are_a_projection_on_the_simplex():
    rows = sides(0, free=False)
    _, t, _ = best_shares(rows, UNIT, 3)
    for unit in range(3):
        here = unit == UNIT
        torch.testing.assert_close(t[here], nearest_simplex(rows.cross_c[here] / rows.gram_c[here]))


@pytest.mark.parametrize(("free", "signed"), KINDS)
def test_a_split_that_was_made_is_found(free, signed):
    """Rows that are s and t times their unit."""
    rows = sides(1, free=free, signed=signed)
    g = torch.Generator().manual_seed(2)
    share = torch.rand(len(UNIT), generator=g, dtype=torch.float64) + 0.1
    share = share / summed(share)[UNIT]
    scale = torch.ones_like(share)
    if free:
        scale = torch.randn(len(UNIT), generator=g, dtype=torch.float64).exp()
    if signed:
        scale = scale * torch.where(torch.arange(len(UNIT)) % 2 == 0, -1.0, 1.0)
    rows = replace(rows, cross_v=scale * rows.gram_v, cross_c=share / scale * rows.gram_c)
    s, t, _ = best_shares(rows, UNIT, 3)
    torch.testing.assert_close(s, scale)
    torch.testing.assert_close(t, share / scale)


def test_rows_that_balance_exactly_and_are_large_still_share():
    """a = b for all rows of a unit, and more of them than it takes: every row would give up at the same price."""
    one = torch.ones(len(UNIT), dtype=torch.float64)
    rows = Sides(3 * one, one, 3 * one, one, free=True)
    s, t, _ = best_shares(rows, UNIT, 3)
    torch.testing.assert_close(summed(s * t), torch.ones(3, dtype=torch.float64))
    least = summed(torch.full_like(one, -9.0)) - 2  # s + t = 3, so that a row costs −9 − 2 s t
    torch.testing.assert_close(summed(rows.cost(s, t)), least, atol=1e-6, rtol=0)
