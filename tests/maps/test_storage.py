"""Maps as data: saving, fibres, dtypes, distance, and what `sample` promises."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError

import pytest
import torch
from safetensors.torch import load, save

from onebasin import families
from onebasin.errors import BadCheckpoint, LayoutMismatch
from onebasin.maps import (
    MAPS,
    Invertible,
    Map,
    Monomial,
    Orthogonal,
    OrthogonalOnes,
    PairRotation,
    Permutation,
    PositiveScaling,
    Rotary,
    ScaledPermutation,
    SignedScaling,
)

Make = Callable[..., Map]
every_map = pytest.mark.parametrize("kind", MAPS.values(), ids=lambda kind: kind.__name__)


@every_map
@pytest.mark.parametrize("fibres", [None, 3])
def test_saving_loses_nothing(make: Make, kind: type[Map], fibres: int | None) -> None:
    g = make(kind, 1, fibres=fibres)
    again = kind.from_tensors(load(save(g.tensors())))
    assert torch.equal(again.dense(), g.dense())
    assert (again.source, again.target, again.fibres, again.dtype) == (g.source, g.target, fibres, torch.float64)
    if kind.family.group:
        assert torch.equal(kind.from_tensors(load(save(g.inverse().tensors()))).dense(), g.inverse().dense())


def test_other_tensors_are_refused() -> None:
    with pytest.raises(
        BadCheckpoint, match=r"Not a stored Rotary.\n  expected: \['imag', 'real'\]\n  found: \['real'\]"
    ):
        Rotary.from_tensors({"real": torch.ones(2)})


@every_map
def test_take_chooses_fibres(make: Make, kind: type[Map]) -> None:
    g, index = make(kind, 2, fibres=3), [2, 0, 1, 2]
    taken = g.take(index)
    assert torch.equal(taken.dense(), g.dense()[index])
    assert torch.equal(g.take(torch.tensor(index)).dense(), taken.dense())
    x = torch.randn(3, g.source, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    moved_after, moved_before = g.act(x, 1, base_dim=0)[index], taken.act(x[index], 1, base_dim=0)
    torch.testing.assert_close(moved_before, moved_after, rtol=0, atol=1e-14)
    with pytest.raises(LayoutMismatch, match="found: <" + kind.__name__):
        make(kind, 2).take(index)


@every_map
def test_to_changes_the_floating_dtype_only(make: Make, kind: type[Map]) -> None:
    g = make(kind, 3, fibres=2)
    single = g.to(torch.float32)
    assert single.dtype == single.dense().dtype == torch.float32
    assert all(t.dtype in (torch.float32, torch.long) for t in single.tensors().values())
    torch.testing.assert_close(single.dense().double(), g.dense(), rtol=1e-6, atol=1e-6)
    assert {t.device.type for t in g.to(device="meta").tensors().values()} == {"meta"}


@every_map
@pytest.mark.parametrize("fibres", [None, 3])
def test_distance_is_the_root_mean_square_displacement(make: Make, kind: type[Map], fibres: int | None) -> None:
    g = make(kind, 4, fibres=fibres)
    eye = torch.eye(g.target, g.source, dtype=torch.float64)
    wanted = (g.dense() - eye).norm() / (g.source * (fibres or 1)) ** 0.5
    assert g.distance() == pytest.approx(float(wanted), rel=1e-12, abs=1e-14)
    assert kind.identity(6, fibres).distance() == 0


@pytest.mark.parametrize("kind", [Invertible, Orthogonal, Monomial, PositiveScaling, Rotary, PairRotation])
def test_distance_is_accurate_near_the_identity(kind: type[Map]) -> None:
    noise = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    near = kind.project(torch.eye(4, dtype=torch.float64) + 1e-12 * noise)
    assert 1e-14 < near.distance() < 1e-11


@every_map
def test_maps_are_immutable_and_say_what_they_are(make: Make, kind: type[Map]) -> None:
    g = make(kind, 5, fibres=2)
    with pytest.raises(FrozenInstanceError):
        setattr(g, next(iter(g.tensors())), torch.zeros(1))
    assert repr(g) == f"<{kind.__name__} 2 x (4 -> {g.target}) torch.float64 cpu>"
    assert repr(make(kind, 5)) == f"<{kind.__name__} (4 -> {g.target}) torch.float64 cpu>"


# ---- what `sample` promises ------------------------------------------------------------------------------------------


@every_map
def test_samples_follow_the_seed_and_the_fibres_differ(make: Make, kind: type[Map]) -> None:
    assert torch.equal(make(kind, 6, fibres=8).dense(), make(kind, 6, fibres=8).dense())
    assert make(kind, 6, fibres=8).dense().shape[0] == 8
    different = len(make(kind, 6, fibres=8).dense().unique(dim=0))
    assert different == 1 if kind.family is families.TRIVIAL else different > 1


@pytest.mark.parametrize("kind", [Invertible, Orthogonal, OrthogonalOnes])
def test_samples_have_both_determinants(make: Make, kind: type[Map]) -> None:
    assert set(torch.linalg.det(make(kind, 7, fibres=40).dense()).sign().tolist()) == {-1.0, 1.0}


def test_samples_fixing_ones_have_both_signs_on_the_mean(make: Make) -> None:
    mean = make(OrthogonalOnes, 7, fibres=40).dense().sum(-1)
    assert set(mean.round(decimals=10).flatten().tolist()) == {-1.0, 1.0}


@pytest.mark.parametrize("condition", [1.0, 4.0, 100.0])
def test_samples_have_the_condition_asked_for(condition: float) -> None:
    generator = torch.Generator().manual_seed(8)
    exact = torch.linalg.cond(Invertible.sample(6, generator=generator, fibres=5, condition=condition).dense())
    torch.testing.assert_close(exact, torch.full_like(exact, condition))
    for kind in (Monomial, ScaledPermutation, SignedScaling, PositiveScaling, Rotary):
        sizes = torch.linalg.svdvals(kind.sample(200, generator=generator, condition=condition).dense())
        assert condition**-0.5 - 1e-9 < sizes.min() < condition**-0.4 + 1e-9
        assert condition**0.4 - 1e-9 < sizes.max() < condition**0.5 + 1e-9


def test_samples_take_the_dtype_asked_for() -> None:
    for kind in MAPS.values():
        assert kind.sample(4, generator=torch.Generator(), dtype=torch.float32).dtype == torch.float32
        assert kind.identity(4, dtype=torch.float32).dtype == torch.float32


def test_generic_samples_are_far_from_the_identity(make: Make) -> None:
    for kind in (Invertible, Orthogonal, OrthogonalOnes, Permutation, Rotary, PairRotation):
        assert make(kind, 9, 16).distance() > 0.7
