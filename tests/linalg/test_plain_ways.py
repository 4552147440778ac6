"""What a GPU takes in place of singular values and eigenvectors gives the same, and says where it would not."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from onebasin.linalg import gauge, polar
from onebasin.linalg.inverses import invert, invert_bounded
from onebasin.linalg.orthogonal import by_newton

seeds = st.integers(0, 2**32 - 1)
F64 = torch.float64


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def spread(seed: int, n: int, condition: float, count: int = 3) -> torch.Tensor:
    """Random matrices of this condition."""
    left, _, right = torch.linalg.svd(normal(seed, count, n, n))
    sizes = torch.logspace(0, -torch.log10(torch.tensor(condition, dtype=F64)).item(), n, dtype=F64)
    return 7.0 * left * sizes @ right


@given(seeds, st.sampled_from([1, 2, 5, 33]), st.sampled_from([1.0, 1e3, 1e8]))
def test_newton_finds_the_polar_factor(seed: int, n: int, condition: float) -> None:
    matrix = spread(seed, n, condition)
    found = by_newton(matrix)
    assert found is not None
    eye = torch.eye(n, dtype=F64)
    assert (found.mT @ found - eye).abs().max() < 1e-14 * n + 1e-15
    assert (found - polar(matrix)).abs().max() < 1e-15 * max(condition, 10.0)
    stretch = found.mT @ matrix
    assert (stretch - stretch.mT).abs().max() < 1e-13 * n


def test_newton_takes_few_steps(monkeypatch) -> None:
    taken, usual = [], torch.linalg.inv_ex
    monkeypatch.setattr(torch.linalg, "inv_ex", lambda x: taken.append(1) or usual(x))
    assert by_newton(spread(0, 40, 1e8)) is not None
    assert len(taken) <= 12


@pytest.mark.parametrize("flaw", ["rank", "nearly", "shape", "nan"])
def test_newton_leaves_to_others_what_may_lack_rank(flaw: str) -> None:
    matrix = spread(1, 6, 1e3)
    if flaw == "rank":
        matrix[1] = matrix[1, :, :1] * matrix[1, :1]
    elif flaw == "nearly":
        matrix[1] = spread(2, 6, 1e12)[0]
    elif flaw == "nan":
        matrix[1, 2, 3] = torch.nan
    else:
        matrix = matrix[:, :4]
    assert by_newton(matrix) is None


@given(seeds)
def test_an_inverse_is_doubtful_where_the_condition_may_be_higher(seed: int) -> None:
    matrices = torch.cat([spread(seed, 5, 10.0, 1), spread(seed + 1, 5, 1e6, 1), torch.zeros(1, 5, 5, dtype=F64)])
    inverse, doubtful = invert_bounded(matrices, 1e3)
    assert doubtful.tolist() == [False, True, True]
    assert (inverse[0] @ matrices[0] - torch.eye(5, dtype=F64)).abs().max() < 1e-13
    assert not invert_bounded(matrices[:2], 1e8)[1].any()  # control


def test_on_a_cpu_everything_is_doubtful() -> None:
    assert invert(spread(0, 4, 2.0), 1e9)[1].all()


@given(seeds, st.sampled_from([4.0, torch.inf]))
def test_maps_inside_heads_are_the_same(seed: int, condition: float) -> None:
    """Sound heads, a head that one side hardly sees, and one that neither sees in a direction."""
    a, b = normal(seed, 2, 4, 6, 20), normal(seed + 1, 2, 4, 6, 20)
    b[0, 1, 0] *= 1e-7
    b[:, 2, 1] = 0
    a[:, 3] = normal(seed + 2, 6, 6) @ b[:, 3]  # a planted map that is no rotation
    moments = [x for c, d in zip(a, b, strict=True) for x in (c @ d.mT, d @ d.mT)]
    by_vectors = gauge.two_sided(*moments, condition=condition)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gauge, "invert", invert_bounded)
        plainly = gauge.two_sided(*moments, condition=condition)
    heights = [gauge.two_sided_distance(g, *moments) for g in (by_vectors, plainly)]
    assert ((heights[0] - heights[1]).abs() < 1e-6 * heights[0].abs().clamp_min(1)).all()
    assert (by_vectors - plainly)[[0, 3]].abs().max() < 1e-6 * by_vectors[[0, 3]].abs().max()
