"""Each kernel against the definition of what it solves."""

from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from onebasin.linalg import (
    assign,
    mixture,
    nearest_doubly_stochastic,
    nearest_simplex,
    ones_complement,
    polar,
    polar_fixing_ones,
    running_shares,
    sinkhorn,
    stochastic,
)

seeds = st.integers(0, 2**32 - 1)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def close(a: Tensor, b: Tensor | float, atol: float = 1e-12) -> None:
    torch.testing.assert_close(a, torch.as_tensor(b, dtype=a.dtype).expand_as(a), rtol=0, atol=atol)


# ---- orthogonal ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 17, 64])
def test_ones_complement_is_an_orthonormal_basis_of_the_complement(n: int) -> None:
    basis = ones_complement(n)
    assert basis.shape == (n, n - 1)
    close(basis.mT @ basis, torch.eye(n - 1))
    close(basis.sum(0), 0.0)


def test_ones_complement_is_cached_per_dtype() -> None:
    assert ones_complement(12) is ones_complement(12)
    assert ones_complement(12, dtype=torch.float32).dtype == torch.float32


def test_ones_complement_first_asked_for_in_inference_mode_can_be_differentiated_later() -> None:
    with torch.inference_mode():
        ones_complement(23)
    x = torch.ones(23, dtype=torch.float64, requires_grad=True)
    (x @ ones_complement(23)).square().sum().backward()
    assert x.grad is not None


@given(seeds, st.sampled_from([(4, 4), (6, 3), (3, 6)]))
def test_polar_has_orthonormal_columns_and_is_stationary(seed: int, shape: tuple[int, int]) -> None:
    matrix = normal(seed, 2, *shape)
    q = polar(matrix)
    tall = shape[0] >= shape[1]
    close(q.mT @ q if tall else q @ q.mT, torch.eye(min(shape)), 1e-13)
    stretch = q.mT @ matrix if tall else matrix @ q.mT  # symmetric and positive: the polar decomposition
    close(stretch, stretch.mT)
    assert torch.linalg.eigvalsh(stretch).min() > 0


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 4)])
def test_the_gradient_of_the_polar_factor_is_that_of_small_steps(shape: tuple[int, ...]) -> None:
    matrix = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    assert torch.autograd.gradcheck(polar, matrix)


@given(seeds)
def test_polar_fixing_ones_is_the_best_of_its_kind(seed: int) -> None:
    n, matrix = 5, normal(seed, 5, 5)
    q, one = polar_fixing_ones(matrix), torch.ones(5, dtype=torch.float64)
    close(q.mT @ q, torch.eye(n), 1e-13)
    close((q @ one) * (q @ one).sign()[0], one, 1e-13)
    basis = ones_complement(n)
    stretch = basis.mT @ q.mT @ matrix @ basis
    close(stretch, stretch.mT)
    assert torch.linalg.eigvalsh(stretch).min() > 0
    assert torch.sum(matrix * q) >= torch.sum(matrix * (q - 2 * q.mean()))  # the other sign on the mean direction


def low_rank(seed: int, n: int = 8, rank: int = 3) -> Tensor:
    """Of mean zero in rows and columns, as the moment of two centred streams with few anchors."""
    left, right = normal(seed, n, rank), normal(seed + 1, n, rank)
    return (left - left.mean(0)) @ (right - right.mean(0)).mT


@pytest.mark.parametrize("nearest", [polar, polar_fixing_ones])
def test_nearest_matrices_are_computed_in_the_dtype_they_are_given(nearest) -> None:
    matrix = torch.randn(5, 5, generator=torch.Generator().manual_seed(0))
    found = nearest(matrix)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), nearest(matrix.double()), rtol=0, atol=1e-5)


@pytest.mark.parametrize("nearest", [polar, polar_fixing_ones])
@pytest.mark.parametrize("seed", range(20))
def test_what_a_matrix_leaves_open_is_settled_by_another_and_not_by_rounding(nearest, seed: int) -> None:
    matrix, eye = low_rank(seed), torch.eye(8, dtype=torch.float64)
    near = nearest(eye + 0.3 * normal(seed + 2, 8, 8))
    q = nearest(matrix, near)
    close(q @ q.mT, eye)
    close((matrix * q).sum(), torch.linalg.svdvals(matrix).sum())  # still the best
    assert (nearest(matrix + 1e-15 * normal(seed + 3, 8, 8), near) - q).abs().max() < 1e-6
    assert (nearest(matrix + 1e-7 * near) - q).abs().max() < 1e-4  # the limit of a small pull
    assert nearest(torch.zeros(8, 8, dtype=torch.float64), near).allclose(near)


@pytest.mark.parametrize("nearest", [polar, polar_fixing_ones])
@pytest.mark.parametrize("seed", range(20))
def test_where_nothing_is_open_no_bit_changes(nearest, seed: int) -> None:
    full, lacking = normal(seed, 6, 6), low_rank(seed, 6)
    assert nearest(full, torch.eye(6, dtype=torch.float64)).equal(nearest(full))
    both, eyes = torch.stack((full, lacking)), torch.eye(6, dtype=torch.float64).expand(2, 6, 6)
    close(nearest(both, eyes), torch.stack((nearest(full), nearest(lacking, eyes[0]))))


def test_polar_fixing_ones_of_a_doubly_centred_matrix_is_its_polar_factor_on_the_complement() -> None:
    centre = ones_complement(6) @ ones_complement(6).mT
    matrix = centre @ normal(0, 6, 6) @ centre
    close(centre @ polar(matrix) @ centre, centre @ polar_fixing_ones(matrix) @ centre)


# ---- assignment ------------------------------------------------------------------------------------------------------


@given(seeds, st.sampled_from([(1, 1), (4, 4), (3, 5)]))
def test_assign_finds_the_best_of_all_assignments(seed: int, shape: tuple[int, int]) -> None:
    scores = normal(seed, 2, *shape)
    found = assign(scores)
    assert found.dtype == torch.long
    assert found.shape == (2, shape[0])
    for score, index in zip(scores, found, strict=True):
        best = max(sum(score[i, j] for i, j in enumerate(p)) for p in permutations(range(shape[1]), shape[0]))
        close(score.gather(1, index[:, None]).sum(), float(best))


def test_assign_refuses_what_has_no_answer() -> None:
    with pytest.raises(ValueError, match="transpose"):
        assign(torch.zeros(3, 2))
    with pytest.raises(ValueError, match="finite"):
        assign(torch.tensor([[0.0, float("nan")], [0.0, 0.0]]))


# ---- stochastic ------------------------------------------------------------------------------------------------------


@given(seeds, st.integers(1, 5))
def test_mixture_is_the_weighted_sum(seed: int, count: int) -> None:
    parts, drawn = normal(seed, count, 2, 3), normal(seed + 1, count).softmax(0)
    corner = torch.eye(count, dtype=torch.float64)[seed % count]
    edge = drawn * (drawn < drawn.max()) if count > 1 else drawn
    for weight in (drawn, corner, edge / edge.sum()):
        close(mixture(list(parts), running_shares(weight)), torch.einsum("m,mij->ij", weight, parts))


@given(seeds, st.sampled_from([0.1, 1.0, 100.0]))
def test_nearest_simplex_satisfies_the_optimality_conditions(seed: int, size: float) -> None:
    x = normal(seed, 3, 6) * size
    p = nearest_simplex(x)
    close(p.sum(-1), 1.0)
    assert p.min() >= 0
    threshold = torch.where(p > 0, x - p, -torch.inf).amax(-1, keepdim=True)  # x - p = t on the support, x <= t off it
    close(torch.where(p > 0, x - p - threshold, 0), 0.0)
    assert torch.where(p > 0, threshold, x).le(threshold + 1e-12).all()


@given(seeds, st.sampled_from([0.1, 1.0, 2.0]))
def test_sinkhorn_scales_rows_and_columns_only(seed: int, size: float) -> None:
    scores = normal(seed, 2, 5, 5) * size
    p = sinkhorn(scores, iterations=500)
    close(p.sum(-1), 1.0)
    close(p.sum(-2), 1.0)
    change = p.log() - scores  # u_i + v_j
    close(change - change.mean(-1, keepdim=True) - change.mean(-2, keepdim=True) + change.mean((-2, -1), True), 0.0)


def test_sinkhorn_does_not_overflow_and_can_be_differentiated() -> None:
    scores = (1e4 * normal(0, 4, 4)).requires_grad_()
    p = sinkhorn(scores, iterations=5)
    close(p.sum(-2), 1.0)
    p.square().sum().backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


@given(seeds, st.sampled_from([0.1, 1.0, 100.0]))
def test_nearest_doubly_stochastic_is_optimal(seed: int, size: float) -> None:
    """P is the projection of M iff <M - P, Q - P> <= 0 on the polytope, that is, for the best permutation Q."""
    m = normal(seed, 2, 7, 7) * size
    p = nearest_doubly_stochastic(m)
    close(p.sum(-1), 1.0, 1e-12 * (1 + size))
    close(p.sum(-2), 1.0, 1e-12 * (1 + size))
    assert p.min() >= 0
    gap = (m - p).gather(-1, assign(m - p)[..., None]).sum((-2, -1)) - torch.sum((m - p) * p, (-2, -1))
    assert gap.abs().max() < 1e-12 * (1 + size) ** 2


def test_nearest_doubly_stochastic_of_large_and_single_precision_matrices() -> None:
    p = nearest_doubly_stochastic(normal(1, 40, 40) * 1e5)
    close(p.sum(-1), 1.0, 1e-7)
    close(p.sum(-2), 1.0, 1e-7)
    single = normal(2, 40, 40).float()
    assert torch.equal(nearest_doubly_stochastic(single), nearest_doubly_stochastic(single.double()).float())


@pytest.mark.parametrize("size", [0.0, 1e-14, 1e-12, 1e-6])
def test_nearest_doubly_stochastic_hardly_moves_what_is_nearly_so(size: float) -> None:
    for start in (torch.eye(4), torch.full((4, 4), 0.25), (torch.eye(4) + torch.eye(4).roll(1, 0)) / 2):
        m = start.double() + size * normal(3, 4, 4)
        assert (nearest_doubly_stochastic(m) - m).norm() <= 8 * size


def test_nearest_doubly_stochastic_says_when_it_did_not_converge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stochastic, "_MAX_STEPS", 1)
    with pytest.warns(RuntimeWarning, match="miss one by"):
        nearest_doubly_stochastic(normal(0, 5, 5))
