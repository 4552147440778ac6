"""The nearest member: inside, unchanged if inside, nearest, equivariant; and the dimension it leaves free."""

from collections.abc import Callable
from itertools import permutations, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.examples import examples
from onebasin.families import ORTHOGONAL, meet
from onebasin.linalg import nearest_simplex
from onebasin.maps import (
    MAPS,
    Invertible,
    Map,
    Monomial,
    PairRotation,
    Permutation,
    PermutationSign,
    PositiveScaling,
    Rotary,
    ScaledPermutation,
    SemiPermutation,
    SignedPermutation,
    map_of,
)

Make = Callable[..., Map]
every_map = pytest.mark.parametrize("kind", MAPS.values(), ids=lambda kind: kind.__name__)
every_group = pytest.mark.parametrize(
    "kind", [kind for family, kind in MAPS.items() if family.group], ids=lambda kind: kind.__name__
)
seeds = st.integers(0, 2**32 - 1)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def target_of(kind: type[Map], make: Make, seed: int) -> Tensor:
    """A matrix to project: generic; for semi-permutations, whose projection is exact there only, near the family."""
    if kind is SemiPermutation:
        return make(kind, seed + 7).dense() + 0.05 * normal(seed, 6, 4)
    return normal(seed, make(kind, 0).target, 4)


def distance(matrix: Tensor, members: Map) -> Tensor:
    return torch.linalg.matrix_norm(members.dense() - matrix)


@every_map
@examples(10)
@given(seeds)
def test_projection_keeps_members(make: Make, kind: type[Map], seed: int) -> None:
    for g in (make(kind, seed), make(kind, seed, fibres=3)):
        again = kind.project(g.dense())
        assert (again.source, again.target, again.fibres) == (g.source, g.target, g.fibres)
        torch.testing.assert_close(again.dense(), g.dense(), rtol=0, atol=1e-13)


@every_map
@examples(10)
@given(seeds)
def test_projection_lands_inside_and_no_random_member_is_nearer(make: Make, kind: type[Map], seed: int) -> None:
    matrix = target_of(kind, make, seed)
    assert kind.contains(kind.project(matrix).dense())
    nearest = kind.project(matrix, floor=0.0)  # in the closure of an open family
    assert distance(matrix, nearest) <= distance(matrix, make(kind, seed, fibres=2000)).min() + 1e-12


@every_map
@examples(10)
@given(seeds)
def test_no_neighbour_of_the_projection_is_nearer(make: Make, kind: type[Map], seed: int) -> None:
    matrix = target_of(kind, make, seed)
    nearest = kind.project(matrix, floor=0.0)
    for size in (1e-3, 1e-1):
        neighbours = kind.project(nearest.dense() + size * normal(seed + 1, 50, *matrix.shape))
        assert distance(matrix, nearest) <= distance(matrix, neighbours).min() + 1e-12


# What the best scales make of the matched entries m: |M|^2 - |M - D P|^2.
GAINS: dict[type[Map], Callable[[Tensor], Tensor]] = {
    Permutation: lambda m: (2 * m - 1).sum(-1),
    SignedPermutation: lambda m: (2 * m.abs() - 1).sum(-1),
    PermutationSign: lambda m: 2 * m.sum(-1).abs() - m.shape[-1],
    ScaledPermutation: lambda m: m.clamp(min=0).square().sum(-1),
    Monomial: lambda m: m.square().sum(-1),
}


@pytest.mark.parametrize("kind", GAINS)
@examples(20)
@given(seeds)
def test_projection_is_the_best_over_all_permutations(kind: type[Map], seed: int) -> None:
    matrix = normal(seed, 4, 4)
    every = torch.tensor(list(permutations(range(4))))
    best = GAINS[kind](matrix.expand(len(every), 4, 4).gather(-1, every.unsqueeze(-1)).squeeze(-1)).max()
    wanted = (matrix.square().sum() - best).sqrt()
    found = distance(matrix, kind.project(matrix, floor=0.0))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


@examples(20)
@given(seeds)
def test_semi_permutations_are_projected_on_the_best_pattern_near_by_and_a_good_one_anywhere(seed: int) -> None:
    """Against all patterns, with the nearest shares for each."""
    every = torch.tensor([p for p in product(range(3), repeat=5) if len(set(p)) == 3])
    owned = torch.arange(3) == every.unsqueeze(-1)
    near = SemiPermutation.sample(3, target=5, generator=torch.Generator().manual_seed(seed)).dense()
    for matrix, allowance in ((near + 0.05 * normal(seed, 5, 3), 1e-12), (normal(seed, 5, 3), 0.1)):
        shares = nearest_simplex(torch.where(owned, matrix, -10.0).mT).mT
        best = torch.linalg.matrix_norm(shares - matrix).min()
        assert best - 1e-12 <= distance(matrix, SemiPermutation.project(matrix)) <= best * (1 + allowance)


@every_group
@examples(10)
@given(seeds)
def test_projection_commutes_with_the_isometries_of_the_family(make: Make, kind: type[Map], seed: int) -> None:
    """Orthogonal members r, s keep both the family and the Frobenius norm, so r M s projects to r project(M) s."""
    isometries = map_of(meet([kind.family, ORTHOGONAL]))
    r, s, matrix = make(isometries, seed).dense(), make(isometries, seed + 1).dense(), normal(seed, 4, 4)
    torch.testing.assert_close(
        kind.project(r @ matrix @ s).dense(), r @ kind.project(matrix).dense() @ s, rtol=0, atol=1e-9
    )


def test_projection_of_fibres_is_fibre_by_fibre() -> None:
    matrices = normal(3, 5, 4, 4)
    for kind in MAPS.values():
        apart = torch.stack([kind.project(matrix).dense() for matrix in matrices])
        torch.testing.assert_close(kind.project(matrices).dense(), apart, rtol=0, atol=1e-12)


def test_what_says_nothing_about_rotary_pairs_leaves_them_where_they_are() -> None:
    nothing = torch.zeros(4, 4, dtype=torch.float64)
    assert PairRotation.project(nothing).dense().equal(torch.eye(4, dtype=torch.float64))


def test_open_families_are_closed_off_at_the_floor() -> None:
    singular = torch.diag(torch.tensor([4.0, 1.0, 0.0, 1.0], dtype=torch.float64))
    assert torch.linalg.cond(Invertible.project(singular).dense()) == pytest.approx(1e6)
    assert torch.linalg.cond(Invertible.project(singular, floor=0.1).dense()) == pytest.approx(10)
    assert PositiveScaling.project(-singular).dense().diagonal().tolist() == [4e-6] * 4
    turned = Invertible.sample(4, generator=torch.Generator().manual_seed(0)).dense() @ singular
    assert distance(turned, Invertible.project(turned)) == pytest.approx(1e-6 * torch.linalg.norm(turned, 2))
    for kind in (Invertible, Monomial, PositiveScaling, Rotary):
        assert torch.linalg.matrix_rank(kind.project(0 * singular).dense()) == 4


@every_map
@pytest.mark.parametrize("n", [4, 6])
def test_dimension_is_the_rank_of_the_tangent_space(make: Make, kind: type[Map], n: int) -> None:
    """Projecting g + eps * noise moves g along the family; the moves span its tangent space, up to O(eps)."""
    g, eps = make(kind, 12, n), 1e-5
    noise = normal(13, n * n + 4 * n, g.target, g.source)
    moves = (kind.project(g.dense() + eps * noise).dense() - g.dense()).flatten(1) / eps
    sizes = torch.linalg.svdvals(moves)
    assert int((sizes > 1e-2).sum()) == kind.family.dimension(n, g.target)
    assert not ((sizes > 1e-3) & (sizes < 0.1)).any(), "no doubtful singular value"
