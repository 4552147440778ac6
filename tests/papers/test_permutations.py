"""Latents of permutations: straight-through and soft."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck

from helpers.latents import SIZE, double, make, random
from onebasin import families as fam
from onebasin.families import Rep
from onebasin.linalg import assign
from onebasin.maps import MAPS, map_of
from onebasin.papers.permutations import PERMUTING, Soft, StraightThrough

FIBRES = pytest.mark.parametrize("fibres", [None, 3])


def test_every_family_with_a_learnable_order_is_here():
    assert {family for family in fam.GROUPS if map_of(family).__mro__[1].__name__ == "MonomialGroup"} >= set(PERMUTING)
    assert all(MAPS[family].permutes for family in PERMUTING)


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
