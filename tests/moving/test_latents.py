"""Latents: zero is the identity, every latent is a member, gradients are right and finite, for every family."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from helpers.latents import ROTATIONS, SIZE, double, make, random
from onebasin import families as fam
from onebasin.families import Rep
from onebasin.linalg import cayley, centred, expm, skew
from onebasin.maps import map_of
from onebasin.moving import latents
from onebasin.moving.latents import LATENTS, CayleyChart, Gauge
from onebasin.papers.strategies import exponential_chart, polar_chart

CHARTED = (fam.ORTHOGONAL, fam.ORTHOGONAL_ONES, fam.INVERTIBLE)
CHARTS = [
    *((family, "cayley") for family in LATENTS),
    *((family, chart) for family in CHARTED for chart in ROTATIONS[1:]),
]
CASES = pytest.mark.parametrize(("family", "rotation"), CHARTS, ids=lambda x: str(x).replace(" ", "-"))
FIBRES = pytest.mark.parametrize("fibres", [None, 3])


def test_every_continuous_family_has_a_latent():
    """What is left out has dimension zero."""
    assert {family for family in fam.GROUPS if family.dimension(SIZE, SIZE) > 0} == set(LATENTS)


@CASES
@FIBRES
def test_zero_is_the_identity(family, rotation, fibres):
    latent = make(family, fibres, rotation=rotation)
    parts = double(latent.start())
    assert all((x == 0).all() for x in parts.values())
    for g in (latent.map(parts), latent.member(parts)):
        assert g.fibres == fibres
        for rep in (Rep.VEC, Rep.COV):
            assert g.dense(rep).equal(torch.eye(SIZE, dtype=torch.float64).expand_as(g.dense(rep)))


@CASES
@FIBRES
def test_every_latent_is_a_member_and_its_covector_is_right(family, rotation, fibres):
    latent = make(family, fibres, rotation=rotation)
    parts = random(latent)
    g, member = latent.map(parts), latent.member(parts)
    assert g.distance() > 0.05
    assert type(member) is map_of(family)
    assert map_of(family).contains(member.dense(), 1e-10)
    torch.testing.assert_close(g.dense(), member.dense())
    torch.testing.assert_close(g.dense(Rep.COV), member.dense(Rep.COV))
    eye = torch.eye(SIZE, dtype=torch.float64).expand_as(g.dense())
    torch.testing.assert_close(g.dense(Rep.COV).mT @ g.dense(), eye)


def test_the_all_ones_vector_is_fixed_only_where_it_must_be():
    ones = torch.ones(SIZE, dtype=torch.float64)
    for rotation in ROTATIONS:
        fixed, free = (make(f, None, rotation=rotation) for f in (fam.ORTHOGONAL_ONES, fam.ORTHOGONAL))
        torch.testing.assert_close(fixed.map(random(fixed)).dense() @ ones, ones)
        assert (free.map(random(free)).dense() @ ones - ones).abs().max() > 0.01


@CASES
@FIBRES
@pytest.mark.parametrize("at", [0.0, 0.15])
def test_gradients(family, rotation, fibres, at):
    latent = make(family, fibres, rotation=rotation)
    parts = random(latent, size=at)
    x = torch.randn(3, 2, SIZE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def act(*values: Tensor) -> tuple[Tensor, ...]:
        g = latent.map(dict(zip(parts, values, strict=True)))
        return tuple(g.act(x, 2, rep, None if fibres is None else 0) for rep in (Rep.VEC, Rep.COV))

    inputs = [p.requires_grad_() for p in parts.values()]
    assert gradcheck(act, inputs)
    assert all(p.isfinite().all() for p in torch.autograd.grad(sum(y.square().sum() for y in act(*inputs)), inputs))


# ---- charts that move along


@CASES
@FIBRES
def test_a_chart_moves_along_and_the_map_stays(family, rotation, fibres):
    latent = make(family, fibres, rotation=rotation, moves=True)
    parts = {**random(latent), **latent.state()}
    for seed in (1, 2):  # twice: from an origin that is not the identity
        moved = {**parts, **latent.recentred(parts)}
        assert all((moved[name] == 0).all() for name in latent.start() if "origin" in parts)
        for rep in (Rep.VEC, Rep.COV):
            torch.testing.assert_close(latent.map(moved).dense(rep), latent.map(parts).dense(rep))
        assert map_of(family).contains(latent.member(moved).dense(), 1e-10)
        parts = {**moved, **random(latent, seed)}
    assert not make(family, fibres).state()


@pytest.mark.parametrize("recentre_every", [0, 5])
def test_a_half_turn_is_reached_only_by_charts_that_move_along(recentre_every):
    """Cayley's chart has the half turn at infinity."""
    latent = make(fam.ORTHOGONAL, None, moves=bool(recentre_every))
    goal = torch.eye(SIZE, dtype=torch.float64)
    goal[:2, :2] *= -1
    parts = {**random(latent, size=0.01), **latent.state()}
    for step in range(1, 301):
        z = parts["z"].requires_grad_()
        (slope,) = torch.autograd.grad((latent.map(parts).dense() - goal).square().sum(), z)
        parts["z"] = z.detach() - 0.05 * slope
        if recentre_every and step % recentre_every == 0:
            parts |= latent.recentred(parts)
    left = float((latent.map(parts).dense() - goal).norm())
    assert left < 1e-3 if recentre_every else left > 0.01


# ---- charts


@pytest.mark.parametrize("size", [0.02, 0.2])
def test_newton_steps_and_factorisation_agree(size):
    s = skew(size * torch.randn(2, 64, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    exact = cayley(s)
    torch.testing.assert_close(exact.mT @ exact, torch.eye(64, dtype=torch.float64).expand_as(exact))
    torch.testing.assert_close(cayley(s, 10), exact, atol=1e-9, rtol=0)
    assert (cayley(s, 1) - exact).abs().max() > 1e-6  # the control: one step is not enough
    small = s[:, :5, :5].clone().requires_grad_()
    assert gradcheck(lambda s: cayley(skew(s), 12), small)


def test_exponentials_and_centred_matrices_against_the_library():
    x = torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(expm(x), torch.matrix_exp(x), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(centred(x).sum(-1), torch.zeros(3, 8, dtype=torch.float64))
    torch.testing.assert_close(centred(x).sum(-2), torch.zeros(3, 8, dtype=torch.float64))


# ---- Newton steps in place of a factorisation


class QuickChart(CayleyChart):
    """Chooses on a CPU as the chart does on a GPU."""

    def waits(self, z: Tensor) -> bool:
        return True


def turned(degrees: float, size: int = 64) -> Tensor:
    """Latents, in float32, that turn one plane by an angle; the others turn by less."""
    g = torch.Generator().manual_seed(0)
    z = torch.zeros(size, size, dtype=torch.float64)
    angles = torch.rand(size // 2, generator=g, dtype=torch.float64)
    angles[0] = math.radians(degrees)
    z[range(0, size, 2), range(1, size, 2)] = 2 * (angles / 2).tan()
    basis = torch.linalg.qr(torch.randn(size, size, generator=g, dtype=torch.float64))[0]
    return (basis @ z @ basis.mT).float()


def far(q: Tensor) -> float:
    """From orthogonal."""
    return float((q.mT @ q - torch.eye(q.shape[-1])).abs().max())


def test_newton_steps_are_used_where_they_do():
    """Up to 150 degrees they are as good as a factorisation, and stay."""
    chart = QuickChart()
    for degrees in (10, 90, 150):
        z = turned(degrees)
        assert chart(z).equal(cayley(skew(z), latents.NEWTON_STEPS))
        chart.settle(z)
        assert chart.newton
        assert far(chart(z)) < 1e-3
    assert not QuickChart()(z).equal(CayleyChart()(z))  # on a CPU there is a factorisation
    assert CayleyChart()(z).equal(cayley(skew(z)))


def test_a_chart_that_is_no_rotation_any_more_is_noticed():
    chart, z = QuickChart(), turned(176)
    assert far(chart(z)) > 0.01
    assert far(cayley(skew(z))) < 1e-4  # the control: nothing is wrong with the latents
    chart.settle(z)
    assert not chart.newton
    for degrees in (176, 150, 179):  # from then on, wherever the latents go
        z = turned(degrees)
        chart.settle(z)
        assert far(chart(z)) < 1e-4
        assert chart(z).equal(cayley(skew(z)))


@pytest.mark.parametrize("family", CHARTED, ids=str)
def test_latents_settle_their_chart(family):
    chart = QuickChart()
    latent = LATENTS[family](family, 64, None, chart)
    latent.settle({"z": turned(20)})
    assert chart.newton
    latent.settle({"z": turned(176)})
    assert not chart.newton


def test_wide_latents_and_charts_without_newton_steps_are_factorised():
    z = turned(176)
    assert QuickChart()(z.double()).equal(cayley(skew(z.double())))
    assert QuickChart(newton=False)(z).equal(cayley(skew(z)))


def test_the_chart_is_the_one_that_is_given_inside_heads_too():
    """g = R exp(H), and R is the rotation of the given chart."""
    z = random(make(fam.INVERTIBLE, 3), size=0.5)["z"]
    found = {}
    for name, chart in {"cayley": CayleyChart(), "exponential": exponential_chart, "polar": polar_chart}.items():
        latent = make(fam.INVERTIBLE, 3, rotation=name)
        assert isinstance(latent, Gauge)
        found[name] = latent.map({"z": z}).dense()
        torch.testing.assert_close(found[name], chart(z) @ expm((z + z.mT) / 2))
    assert (found["cayley"] - found["exponential"]).abs().max() > 0.01
    assert (found["cayley"] - found["polar"]).abs().max() > 0.01
