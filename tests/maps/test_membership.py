"""Membership: samples are inside, near misses outside, and the order of the families is inclusion."""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor

from onebasin import families
from onebasin.errors import NotInFamily
from onebasin.families import FAMILIES, GROUPS, Family, meet
from onebasin.maps import MAPS, Isometry, Map, Orthogonal, map_of

Make = Callable[..., Map]
every_map = pytest.mark.parametrize("kind", MAPS.values(), ids=lambda kind: kind.__name__)


def rows(*values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def diagonal(*values: float) -> Tensor:
    return torch.diag(torch.tensor(values, dtype=torch.float64))


def turned(angle: float) -> Tensor:
    """A rotation of the first two of four coordinates."""
    found, angle_ = torch.eye(4, dtype=torch.float64), torch.tensor(angle, dtype=torch.float64)
    found[:2, :2] = torch.stack((torch.stack((angle_.cos(), -angle_.sin())), torch.stack((angle_.sin(), angle_.cos()))))
    return found


EYE, SWAP = torch.eye(4, dtype=torch.float64), torch.eye(4, dtype=torch.float64)[[1, 0, 2, 3]]
SHIFT = torch.eye(4, dtype=torch.float64)[[1, 2, 3, 0]]
ZERO_UNIT = diagonal(1, 1, 1, 0)
TWICE = torch.eye(4, dtype=torch.float64)[[0, 0, 1, 2]]  # reads unit 0 twice and unit 3 never

# By family, what must be refused: each is of the right kind but for one thing.
OUTSIDE: dict[Family, list[Tensor]] = {
    families.INVERTIBLE: [ZERO_UNIT, torch.ones(4, 4, dtype=torch.float64), 0 * EYE],
    families.ORTHOGONAL: [1.0001 * SHIFT, EYE + 1e-4 * SHIFT, diagonal(1, 1, 1, 2)],
    families.ORTHOGONAL_ONES: [turned(0.5), diagonal(-1, 1, 1, 1), diagonal(-1, -1, 1, 1)],
    families.MONOMIAL: [SHIFT + 1e-4 * EYE, ZERO_UNIT, TWICE, turned(0.01)],
    families.SCALED_PERMUTATION: [SHIFT @ diagonal(1, 2, -3, 1), ZERO_UNIT, TWICE],
    families.SIGNED_PERMUTATION: [SHIFT @ diagonal(1, -1, 1.0001, 1), ZERO_UNIT, TWICE],
    families.PERMUTATION_SIGN: [SHIFT @ diagonal(1, 1, -1, 1), SHIFT @ diagonal(-1, -1, 1, 1), 2 * SHIFT],
    families.PERMUTATION: [-SHIFT, 2 * SHIFT, TWICE, SHIFT @ diagonal(1, 1, -1, 1)],
    families.SIGNED_SCALING: [SWAP, ZERO_UNIT, EYE + 1e-4 * SHIFT],
    families.POSITIVE_SCALING: [diagonal(1, 2, -3, 1), ZERO_UNIT, SWAP],
    families.SIGNS: [diagonal(1, -1, 1, 1.0001), SWAP],
    families.ROTARY: [
        diagonal(1, 1, -1, -1),  # a reflection: complex conjugation
        torch.eye(4, dtype=torch.float64)[[1, 0, 3, 2]],  # exchanges the two frequencies
        turned(0.5),  # the pairs (0, 1), (2, 3) of the interleaved layout
        diagonal(1, 0, 1, 0),
        diagonal(1, 2, 1, 2.0001),
    ],
    families.PAIR_ROTATION: [diagonal(1, 1.0001, 1, 1.0001), diagonal(1, 1, -1, -1), turned(0.5)],
    families.PAIR_SCALING: [diagonal(1, 2, 1, 3), diagonal(1, 2, 1, -2), diagonal(1, 0, 1, 0), SWAP],
    families.PAIR_SIGNS: [diagonal(1, -1, 1, 1), diagonal(1, -1.0001, 1, -1.0001)],
    families.GLOBAL_SIGN: [diagonal(1, -1, 1, -1), 1.0001 * EYE, -SWAP],
    families.TRIVIAL: [-EYE, 1.0001 * EYE, SWAP],
    families.ISOMETRY: [1.0001 * EYE[:, :3], rows([1, 1], [0, 0], [0, 0]), EYE[:3]],
    families.SEMI_PERMUTATION: [
        rows([0.5, 0.5], [0.5, 0.5]),  # two shares in a row
        rows([0.5, 0], [0.4999, 0], [0, 1]),  # a column that does not sum to one
        rows([1.5, 0], [-0.5, 0], [0, 1]),  # a negative share
        rows([0.5, 0], [0.5, 0]),  # a unit without a share
        EYE[:3],
    ],
    families.DOUBLY_STOCHASTIC: [
        rows([1.5, -0.5], [-0.5, 1.5]),
        rows([0.5, 0.5], [0.4999, 0.5001]),
        rows([0.5, 0.5], [0.5, 0.4999]),
    ],
}


def test_every_family_has_a_map_and_a_near_miss() -> None:
    assert set(MAPS) == set(FAMILIES.values()) == set(OUTSIDE)
    assert all(map_of(family).family == family for family in FAMILIES.values())
    with pytest.raises(NotInFamily, match="No maps are known"):
        map_of(Family("unheard of", "nothing", lambda n, m: 0))


@every_map
@pytest.mark.parametrize("n", [2, 4, 8])
def test_samples_are_members(make: Make, kind: type[Map], n: int) -> None:
    assert kind.contains(make(kind, 1, n).dense())
    assert kind.contains(make(kind, 2, n, fibres=20).dense())
    assert kind.contains(1e-12 + make(kind, 3, n).dense())  # rounding is forgiven


@every_map
def test_near_misses_are_not_members(kind: type[Map]) -> None:
    for matrix in OUTSIDE[kind.family]:
        assert not kind.contains(matrix), matrix
        if matrix.shape[0] == matrix.shape[1]:
            one = torch.eye(len(matrix), dtype=torch.float64)
            assert not kind.contains(torch.stack((one, matrix))), "one fibre outside is outside"


@every_map
def test_matrices_of_another_shape_or_with_nan_are_not_members(kind: type[Map]) -> None:
    assert not kind.contains(EYE[:3])
    assert not kind.contains(torch.full((4, 4), torch.nan, dtype=torch.float64))
    assert kind.admits(4, 6) == (kind.family in (families.ISOMETRY, families.SEMI_PERMUTATION))


@every_map
@pytest.mark.parametrize("seed", range(5))
def test_a_generic_matrix_is_a_member_only_if_all_invertible_ones_are(kind: type[Map], seed: int) -> None:
    matrix = torch.randn(4, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    assert kind.contains(matrix) == (kind.family is families.INVERTIBLE)


@pytest.mark.parametrize("tol", [1e-9, 1e-6, 1e-3])
def test_tolerance_never_lets_a_singular_map_in(tol: float) -> None:
    for family in GROUPS:
        assert not map_of(family).contains(ZERO_UNIT, tol)
    assert Orthogonal.contains((1 + tol / 3) * SHIFT, tol)
    assert not Orthogonal.contains((1 + 3 * tol) * SHIFT, tol)


@pytest.mark.parametrize(("f", "g"), [*product(GROUPS, GROUPS)], ids=lambda family: family.name)
def test_the_order_of_families_is_inclusion(make: Make, f: Family, g: Family) -> None:
    """Sixteen samples of f are all in g if f <= g, and not all otherwise."""
    assert map_of(g).contains(make(map_of(f), 4, 4, fibres=16).dense()) == (f <= g)


@pytest.mark.parametrize(("f", "g"), [*product(GROUPS, GROUPS)], ids=lambda family: family.name)
def test_the_meet_lies_in_both(make: Make, f: Family, g: Family) -> None:
    both = make(map_of(meet([f, g])), 5, 4, fibres=8).dense()
    assert map_of(f).contains(both)
    assert map_of(g).contains(both)


def test_sizes_that_a_family_does_not_have_are_refused() -> None:
    generator = torch.Generator()
    for family in (families.ROTARY, families.PAIR_ROTATION, families.PAIR_SCALING, families.PAIR_SIGNS):
        with pytest.raises(NotInFamily, match="has no maps of this size"):
            map_of(family).identity(5)
    with pytest.raises(NotInFamily, match="found: 4 -> 6"):
        Orthogonal.sample(4, target=6, generator=generator)
    with pytest.raises(NotInFamily, match="found: 6 -> 4"):
        Isometry.project(torch.zeros(4, 6))
