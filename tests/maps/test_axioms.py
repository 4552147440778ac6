"""What makes a family a group, or at least closed: identity, composition, inverse, the pairing of vector and covector.

Members are drawn with condition number at most 4 and n <= 6, so that three of them composed leave rounding below
n * 4^3 * eps = 1e-13; ATOL is ten times that.
"""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.examples import examples
from onebasin.errors import Incompatible, NotInFamily
from onebasin.families import Family, Rep
from onebasin.maps import MAPS, GlobalSign, Isometry, Map, Orthogonal, Permutation, Rotary, SemiPermutation, map_of

ATOL = 1e-12
Make = Callable[..., Map]

every_map = pytest.mark.parametrize("kind", MAPS.values(), ids=lambda kind: kind.__name__)
every_group = pytest.mark.parametrize(
    "kind", [kind for family, kind in MAPS.items() if family.group], ids=lambda kind: kind.__name__
)
drawn = given(seed=st.integers(0, 2**32 - 1), n=st.sampled_from([2, 4, 6]), fibres=st.sampled_from([None, 1, 3]))


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b.expand_as(a), rtol=0, atol=ATOL)


def chain(make: Make, kind: type[Map], count: int, seed: int, n: int, fibres: int | None) -> list[Map]:
    """Maps that follow one another, the last one first; each widens by two where the family can."""
    found: list[Map] = []
    for step in range(count):
        found.insert(0, make(kind, seed + step, n, fibres=fibres))
        n = found[0].target
    return found


def vectors(map_: Map, seed: int, size: int) -> tuple[Tensor, int, int | None]:
    """A tensor (f?, 3, size) for `map_` to act on, the axis and the base axis."""
    shape = (3, size) if map_.fibres is None else (map_.fibres, 3, size)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x, -1, None if map_.fibres is None else 0


@every_map
@examples(15)
@drawn
def test_identity_is_neutral(make: Make, kind: type[Map], seed: int, n: int, fibres: int | None) -> None:
    g = make(kind, seed, n, fibres=fibres)
    assert torch.equal(
        kind.identity(n, fibres).dense(), torch.eye(n, dtype=torch.float64).expand_as(kind.identity(n, fibres).dense())
    )
    close(g.compose(kind.identity(g.source, fibres)).dense(), g.dense())
    close(kind.identity(g.target, fibres).compose(g).dense(), g.dense())


@every_map
@examples(15)
@drawn
def test_composition_is_associative_closed_and_the_product_of_matrices(
    make: Make, kind: type[Map], seed: int, n: int, fibres: int | None
) -> None:
    g, h, k = chain(make, kind, 3, seed, n, fibres)
    left, right = g.compose(h).compose(k), g.compose(h.compose(k))
    assert type(left) is kind
    close(left.dense(), right.dense())
    close(left.dense(), g.dense() @ h.dense() @ k.dense())
    assert kind.contains(left.dense())


@every_map
@examples(15)
@drawn
def test_acting_with_a_composition_is_acting_twice(
    make: Make, kind: type[Map], seed: int, n: int, fibres: int | None
) -> None:
    g, h = chain(make, kind, 2, seed, n, fibres)
    x, dim, base = vectors(g, seed, h.source)
    for rep in (Rep.VEC, Rep.COV):
        close(g.compose(h).act(x, dim, rep, base), g.act(h.act(x, dim, rep, base), dim, rep, base))


@every_group
@examples(15)
@drawn
def test_inverse(make: Make, kind: type[Map], seed: int, n: int, fibres: int | None) -> None:
    g = make(kind, seed, n, fibres=fibres)
    assert type(g.inverse()) is kind
    assert kind.contains(g.inverse().dense())
    close(g.compose(g.inverse()).dense(), torch.eye(n, dtype=torch.float64))
    close(g.inverse().compose(g).dense(), torch.eye(n, dtype=torch.float64))
    close(g.dense(Rep.COV), g.inverse().dense().mT)


@every_group
@examples(15)
@drawn
def test_vector_and_covector_keep_their_pairing(
    make: Make, kind: type[Map], seed: int, n: int, fibres: int | None
) -> None:
    g = make(kind, seed, n, fibres=fibres)
    (x, dim, base), (y, _, _) = vectors(g, seed, n), vectors(g, seed + 1, n)
    close((g.act(x, dim, Rep.VEC, base) * g.act(y, dim, Rep.COV, base)).sum(-1), (x * y).sum(-1))


@pytest.mark.parametrize("kind", [Isometry, SemiPermutation])
@examples(15)
@drawn
def test_rectangular_maps_have_the_covector_as_left_inverse(
    make: Make, kind: type[Map], seed: int, n: int, fibres: int | None
) -> None:
    g = make(kind, seed, n, fibres=fibres)
    close(g.dense(Rep.COV).mT @ g.dense(), torch.eye(n, dtype=torch.float64))


@pytest.mark.parametrize("kind", [Isometry, SemiPermutation])
def test_rectangular_maps_invert_only_if_square(make: Make, kind: type[Map]) -> None:
    square = make(kind, 0, 5, 5)
    close(square.inverse().compose(square).dense(), torch.eye(5, dtype=torch.float64))
    with pytest.raises(NotInFamily, match="no inverse in the family"):
        make(kind, 0, 5, 6).inverse()


def test_a_semi_permutation_with_dead_rows_stays_exact(make: Make) -> None:
    """relu(S w x) seen through the pattern of S is relu(w x), whichever rows are dead."""
    zero = torch.zeros(1, dtype=torch.float64)
    live = make(SemiPermutation, 3, 3, 5)
    dead = SemiPermutation(
        torch.cat((live.tensors()["index"], torch.zeros(1, dtype=torch.long))),
        torch.cat((live.tensors()["scale"], zero)),
    )
    assert (dead.source, dead.target) == (3, 6)
    assert SemiPermutation.contains(dead.dense())
    wider = make(SemiPermutation, 4, 6, 8).compose(dead)
    pre = torch.randn(3, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    out = torch.randn(2, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for s in (live, dead, wider):
        close(s.act(out, 1, Rep.COV) @ s.act(pre, 0).relu(), out @ pre.relu())


PAIRS = [(f, g) for f in MAPS for g in MAPS]


@pytest.mark.parametrize(("f", "g"), PAIRS, ids=lambda family: family.name)
def test_composition_across_families(make: Make, f: Family, g: Family) -> None:
    first, second = make(map_of(f), 1, 4, 4, 2), make(map_of(g), 2, 4, 4, 2)
    if f <= g or g <= f:
        both = second.compose(first)
        assert both.family == (g if f <= g else f)
        close(both.dense(), second.dense() @ first.dense())
    else:
        with pytest.raises(NotInFamily, match="lift both maps"):
            second.compose(first)


def test_lift_keeps_the_map_and_goes_up_only(make: Make) -> None:
    p = make(Permutation, 0)
    assert torch.equal(Orthogonal.lift(p).dense(), p.dense())
    with pytest.raises(NotInFamily, match="'orthogonal' is in general not in the family 'permutation'"):
        Permutation.lift(make(Orthogonal, 0))
    with pytest.raises(NotInFamily, match="found: 5 -> 5"):
        Rotary.lift(make(GlobalSign, 0, 5))


def test_maps_that_do_not_follow_one_another_are_refused(make: Make) -> None:
    for other in (make(Orthogonal, 0, 6), make(Orthogonal, 0, 4, fibres=2)):
        with pytest.raises(Incompatible, match="before <Orthogonal"):
            make(Orthogonal, 0, 4).compose(other)


def test_composition_takes_the_wider_dtype(make: Make) -> None:
    g, h = make(Orthogonal, 0).to(torch.float32), make(Permutation, 1)
    assert g.compose(h).dtype == torch.float64
    assert g.compose(h.to(torch.float32)).dtype == torch.float32
