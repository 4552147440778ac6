"""The charts of rotations that the papers compare, and where they draw λ."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from onebasin.linalg import centred
from onebasin.papers.options import PaperLearning
from onebasin.papers.strategies import CHARTS, LAWS, exponential_chart, polar_chart, variation_of
from onebasin.paths.laws import draw_shares

F64 = torch.float64
TWO_CHARTS = pytest.mark.parametrize("chart", [polar_chart, exponential_chart], ids=["polar", "exponential"])
WIDE = 64


def drawn(deviation: float, seed: int = 0) -> Tensor:
    return deviation * torch.randn(2, WIDE, WIDE, generator=torch.Generator().manual_seed(seed), dtype=F64)


@TWO_CHARTS
@pytest.mark.parametrize("deviation", [0.1, 0.3, 3.0])
def test_charts_stay_orthogonal_wherever_the_latents_go(chart, deviation):
    q = chart(drawn(deviation))
    assert (q.mT @ q - torch.eye(WIDE, dtype=F64)).abs().max() < 1e-10
    assert (q - torch.eye(WIDE, dtype=F64)).abs().max() > 0.1  # the control: they did move


@TWO_CHARTS
@pytest.mark.parametrize("deviation", [0.1, 0.3, 3.0])
def test_charts_of_centred_latents_fix_the_all_ones_vector(chart, deviation):
    ones, z = torch.ones(WIDE, dtype=F64), drawn(deviation)
    assert (chart(centred(z)) @ ones - ones).abs().max() < 1e-10
    assert (chart(z) @ ones - ones).abs().max() > 0.1  # the control


@TWO_CHARTS
def test_charts_at_zero(chart):
    """The identity, and a step turns by the skew part of the gradient, as every chart begins."""
    z, cost = torch.zeros(2, WIDE, WIDE, dtype=F64, requires_grad=True), drawn(1.0, seed=1)
    q = chart(z)
    torch.testing.assert_close(q, torch.eye(WIDE, dtype=F64).expand_as(q), rtol=0, atol=1e-14)
    (slope,) = torch.autograd.grad((cost * q).sum(), z)
    assert slope.isfinite().all()
    torch.testing.assert_close(slope, (cost - cost.mT) / 2)


@TWO_CHARTS
@pytest.mark.parametrize("deviation", [0.3, 3.0])
def test_gradients_of_charts_against_finite_differences(chart, deviation):
    z, cost, direction = drawn(deviation)[:, :8, :8], drawn(1.0, 1)[:, :8, :8], drawn(1.0, 2)[:, :8, :8]
    z = z.clone().requires_grad_()
    (slope,) = torch.autograd.grad((cost * chart(z)).sum(), z)
    step = 1e-6
    with torch.no_grad():
        ahead, behind = (float((cost * chart(z + sign * step * direction)).sum()) for sign in (1, -1))
    assert float((slope * direction).sum()) == pytest.approx((ahead - behind) / (2 * step), rel=1e-5, abs=1e-6)


def test_the_chart_of_a_variation_is_the_one_that_is_named():
    z = drawn(0.3)
    for name, make in CHARTS.items():
        assert variation_of(PaperLearning(rotation=name)).rotation()(z).equal(make()(z))
    assert variation_of(PaperLearning(rotation="polar")).rotation()(z).equal(polar_chart(z))
    assert variation_of(PaperLearning(rotation="exponential")).rotation()(z).equal(exponential_chart(z))


def test_laws():
    shares = {law: draw_shares(LAWS[law], 2, 0.1, 20_000, 0)[:, 1] for law in LAWS}
    assert shares["half"].unique().tolist() == [0.5]
    assert shares["full"].min() < 0.01
    assert shares["full"].max() > 0.99
    assert abs(float(shares["normal"].std()) - 0.1) < 0.003
    assert 0.2 <= shares["near-a"].min() < 0.201 < 0.499 < shares["near-a"].max() <= 0.5
    assert all(float(x.min()) >= 0 and float(x.max()) <= 1 for x in shares.values())
    means = {"near-a": 0.35}
    assert all(abs(float(x.mean()) - means.get(law, 0.5)) < 0.01 for law, x in shares.items())
    again, other = (draw_shares(LAWS["full"], 2, 0.1, 9, seed) for seed in (0, 1))
    assert not again.equal(other)
    assert again.equal(draw_shares(LAWS["full"], 2, 0.1, 9, 0))
    for law, draw in LAWS.items():
        assert variation_of(PaperLearning(law=law)).law is draw
    assert variation_of(PaperLearning()).law is None
