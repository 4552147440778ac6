"""Latents: zero is the identity, every latent is a member, gradients are right and finite, for every family."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from onebasin import families as fam
from onebasin.errors import OnebasinError
from onebasin.families import Rep
from onebasin.learn.assignments import ASSIGNMENTS, PERMUTING, Soft, StraightThrough
from onebasin.learn.latents import LATENTS, Latent
from onebasin.learn.laws import LAWS, PLACES, draw, where_highest
from onebasin.learn.options import LearnedMatching
from onebasin.linalg import assign, cayley, centred, expm, newton_schulz, polar, skew
from onebasin.maps import MAPS, map_of

SIZE = 6
ISOMETRIC = (fam.ORTHOGONAL, fam.ORTHOGONAL_ONES)
ROTATIONS = ("cayley", "exponential", "polar")
CHARTS = [
    *((family, "cayley", "polar") for family in LATENTS),
    *((family, chart, "polar") for family in ISOMETRIC for chart in ROTATIONS[1:]),
    (fam.INVERTIBLE, "cayley", "plain"),
]  # fmt: skip
CASES = pytest.mark.parametrize(("family", "rotation", "invertible"), CHARTS, ids=lambda x: str(x).replace(" ", "-"))
FIBRES = pytest.mark.parametrize("fibres", [None, 3])


def make(family: fam.Family, fibres: int | None, **options: object) -> Latent:
    chosen = LearnedMatching(**options)
    table = {**LATENTS, **ASSIGNMENTS[chosen.permutations]}
    return table[family](family, SIZE, fibres, chosen)


def double(parts: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: x.double() if x.is_floating_point() else x for name, x in parts.items()}


def random(latent: Latent, seed: int = 0, size: float = 0.15) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)
    parts = double(latent.start())
    return {
        name: x + size * torch.randn(x.shape, generator=g, dtype=x.dtype) if x.is_floating_point() else x
        for name, x in parts.items()
    }


def test_every_continuous_family_has_a_latent():
    """What is left out has dimension zero."""
    assert {family for family in fam.GROUPS if family.dimension(SIZE, SIZE) > 0} == set(LATENTS)
    assert {family for family in fam.GROUPS if map_of(family).__mro__[1].__name__ == "MonomialGroup"} >= set(PERMUTING)
    assert all(MAPS[family].permutes for family in PERMUTING)


@CASES
@FIBRES
def test_zero_is_the_identity(family, rotation, invertible, fibres):
    latent = make(family, fibres, rotation=rotation, invertible=invertible)
    parts = double(latent.start())
    assert all((x == 0).all() for x in parts.values())
    for g in (latent.map(parts), latent.member(parts)):
        assert g.fibres == fibres
        for rep in (Rep.VEC, Rep.COV):
            assert g.dense(rep).equal(torch.eye(SIZE, dtype=torch.float64).expand_as(g.dense(rep)))


@CASES
@FIBRES
def test_every_latent_is_a_member_and_its_covector_is_right(family, rotation, invertible, fibres):
    latent = make(family, fibres, rotation=rotation, invertible=invertible)
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
def test_gradients(family, rotation, invertible, fibres, at):
    latent = make(family, fibres, rotation=rotation, invertible=invertible)
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
def test_a_chart_moves_along_and_the_map_stays(family, rotation, invertible, fibres):
    latent = make(family, fibres, rotation=rotation, invertible=invertible, recentre_every=1)
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
    latent = make(fam.ORTHOGONAL, None, recentre_every=recentre_every)
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


# ---- permutations


@pytest.mark.parametrize("family", PERMUTING, ids=str)
@FIBRES
def test_straight_through_is_a_permutation_going_forward_and_z_going_back(family, fibres):
    latent = make(family, fibres, permutations="straight-through")
    assert isinstance(latent, StraightThrough)
    start = double({**latent.start(), **latent.state()})
    eye = torch.eye(SIZE, dtype=torch.float64)
    assert latent.map(start).dense().equal(eye.expand_as(latent.map(start).dense()))
    parts = random(latent, size=1.0)
    parts["index"] = assign(latent.scores(parts["z"]))
    parts["z"].requires_grad_()
    dense = latent.map(parts).dense(Rep.PERM)
    assert dense.detach().sum(-1).eq(1).all()
    assert dense.detach().argmax(-1).equal(parts["index"])
    cost = torch.randn(dense.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    (slope,) = torch.autograd.grad((cost * dense).sum(), parts["z"])
    torch.testing.assert_close(slope, cost)
    member = latent.member(parts)
    assert type(member) is map_of(family)
    torch.testing.assert_close(member.dense(), latent.map(parts).dense().detach())
    torch.testing.assert_close(member.dense(Rep.COV), latent.map(parts).dense(Rep.COV).detach())


@FIBRES
def test_soft_permutations_start_near_the_identity_and_say_how_near(fibres):
    noisy = [make(fam.PERMUTATION, fibres, permutations="soft", noise=e, sinkhorn=50) for e in (1e-4, 1e-2, 0.3)]
    starts = [latent.map(double(latent.start())) for latent in noisy]
    distances = [g.distance() for g in starts]
    assert distances[0] < distances[1] < distances[2]
    assert 0 < distances[0] < 1e-3
    for latent, g in zip(noisy, starts, strict=True):
        assert isinstance(latent, Soft)
        torch.testing.assert_close(g.dense().sum(-2), torch.ones_like(g.dense()[..., 0]))
        torch.testing.assert_close(g.dense().sum(-1), torch.ones_like(g.dense()[..., 0]), atol=1e-3, rtol=0)  # slow
        assert latent.hardened(double(latent.start())).distance() == 0
    z = double(noisy[2].start())["z"].requires_grad_()
    assert gradcheck(lambda z: noisy[2].map({"z": z}).dense(), z)


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


def test_charts_against_the_library():
    x = torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(expm(x), torch.matrix_exp(x), rtol=1e-9, atol=1e-9)
    near = torch.eye(8, dtype=torch.float64) + 0.1 * x
    torch.testing.assert_close(newton_schulz(near), polar(near))
    torch.testing.assert_close(centred(x).sum(-1), torch.zeros(3, 8, dtype=torch.float64))
    torch.testing.assert_close(centred(x).sum(-2), torch.zeros(3, 8, dtype=torch.float64))


# ---- laws and options


def test_laws():
    shares = {law: draw(law, 20_000, 0) for law in LAWS}
    assert 0.4 <= shares["middle"].min() < 0.401
    assert 0.599 < shares["middle"].max() <= 0.6
    assert shares["half"].unique().tolist() == [0.5]
    assert shares["full"].min() < 0.01
    assert shares["full"].max() > 0.99
    assert abs(float(shares["normal"].std()) - 0.1) < 0.003
    assert all(float(x.min()) >= 0 and float(x.max()) <= 1 for x in shares.values())
    means = {"near-a": 0.35, "near-b": 0.65}  # nearer to A, nearer to B
    assert all(abs(float(x.mean()) - means.get(law, 0.5)) < 0.01 for law, x in shares.items())
    assert draw("full", 9, 3).equal(draw("full", 9, 3))
    assert not draw("full", 9, 3).equal(draw("full", 9, 4))


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


@pytest.mark.parametrize(
    "wrong",
    [
        {"learn": ("residual", "brains")}, {"learn": ()}, {"learn": ("qk", "qk")}, {"law": "always"}, {"steps": 0},
        {"batch": 0}, {"lr": -1.0}, {"lr": float("nan")}, {"warmup": 2.0}, {"path": "scenic"}, {"dtype": "float8"},
        {"permutations": "soft", "two_sided": True}, {"optimizer": "sgd"}, {"patience": -1},
        {"alpha": 0.0}, {"turns": "now and then"},
    ],
    ids=str,
)  # fmt: skip
def test_options_are_checked(wrong):
    with pytest.raises(OnebasinError, match=f"The option '{next(iter(wrong))}'"):
        LearnedMatching(**wrong)
