"""Where λ is drawn: between two models, and among several."""

from __future__ import annotations

import pytest
import torch

from onebasin.errors import OnebasinError
from onebasin.paths.laws import LAWS, PLACES, draw_shares, law_for, of_two, where_highest

F64 = torch.float64


def draw(law: str, n: int, seed: int) -> torch.Tensor:
    """The share of B."""
    shares = draw_shares(law, 2, 0.1, n, seed)
    assert shares.equal(of_two(shares[:, 1]))
    return shares[:, 1]


def test_laws():
    shares = {law: draw(law, 20_000, 0) for law in LAWS}
    assert 0.4 <= shares["middle"].min() < 0.401
    assert 0.599 < shares["middle"].max() <= 0.6
    assert all(float(x.min()) >= 0 and float(x.max()) <= 1 for x in shares.values())
    assert all(abs(float(x.mean()) - 0.5) < 0.01 for x in shares.values())
    assert draw("middle", 9, 3).equal(draw("middle", 9, 3))
    assert not draw("middle", 9, 3).equal(draw("middle", 9, 4))


def test_batches_go_where_the_path_is_highest():
    quantile = draw("highest", 20_000, 0)
    heights = [0.0, 0.0, 0.1, 0.27, 0.3, 0.15, 0.0, -0.1, 0.0]
    share = where_highest(quantile, heights)
    counts = torch.histc(share, 9, 0.05, 0.95) / 20_000
    weight = (20 * torch.tensor(heights, dtype=torch.float64) / 0.3).exp()
    torch.testing.assert_close(counts, weight / weight.sum(), atol=0.01, rtol=0)
    within = share[(share > 0.45) & (share < 0.55)]
    assert abs(float(within.std()) - 0.1 / 12**0.5) < 0.001  # uniform around the place
    even = where_highest(quantile, [0.2] * len(PLACES))
    torch.testing.assert_close(even.sort().values, 0.05 + 0.9 * quantile.sort().values)
    low = where_highest(quantile, [-0.1, *[-0.3] * 8])  # no barrier: as "middle"
    assert 0.4 <= low.min() < low.max() <= 0.6


@pytest.mark.parametrize(("count", "alpha"), [(2, 0.1), (3, 0.1), (5, 1.0)])
def test_dirichlet(count, alpha):
    drawn = draw_shares("dirichlet", count, alpha, 50_000, 0)
    assert drawn.shape == (50_000, count)
    torch.testing.assert_close(drawn.sum(1), torch.ones(50_000, dtype=F64))
    assert drawn.min() >= 0
    mean, variance = 1 / count, (1 - 1 / count) / count / (count * alpha + 1)
    torch.testing.assert_close(drawn.mean(0), torch.full((count,), mean, dtype=F64), rtol=0.03, atol=0)
    torch.testing.assert_close(drawn.var(0), torch.full((count,), variance, dtype=F64), rtol=0.03, atol=0)
    assert drawn[:9].equal(draw_shares("dirichlet", count, alpha, 50_000, 0)[:9])
    assert not drawn[:9].equal(draw_shares("dirichlet", count, alpha, 50_000, 1)[:9])


def test_laws_by_the_number_of_models():
    for law in LAWS:
        assert law_for(law, 2) == law
        with pytest.raises(OnebasinError, match="of two models"):
            law_for(law, 3)
    assert [law_for("auto", models) for models in (2, 3, 5)] == ["middle", "dirichlet", "dirichlet"]
    assert draw_shares("auto", 2, 0.1, 9, 3).equal(draw_shares("middle", 2, 0.1, 9, 3))
    assert draw_shares("auto", 3, 0.1, 9, 3).equal(draw_shares("dirichlet", 3, 0.1, 9, 3))
