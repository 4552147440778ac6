"""`act` on every axis against plain matrices; representations; dtypes; refusals."""

from collections.abc import Callable
from itertools import permutations, product

import pytest
import torch
from torch import Tensor

from onebasin import families
from onebasin.errors import LayoutMismatch, NotInFamily
from onebasin.families import Family, Rep
from onebasin.maps import MAPS, Map, Orthogonal, Permutation, Rotary, ScaledPermutation, SemiPermutation

Make = Callable[..., Map]
every_map = pytest.mark.parametrize("kind", MAPS.values(), ids=lambda kind: kind.__name__)


def permutes(family: Family) -> bool:
    """Whether the maps of a family have a permutation part."""
    return family <= families.MONOMIAL or family in (families.SEMI_PERMUTATION, families.DOUBLY_STOCHASTIC)


def representations(kind: type[Map]) -> list[Rep]:
    return [Rep.VEC, Rep.COV, Rep.PERM] if permutes(kind.family) else [Rep.VEC, Rep.COV]


def along(matrix: Tensor, x: Tensor, dim: int) -> Tensor:
    """The definition: contract the columns of `matrix` with axis `dim`."""
    return torch.tensordot(matrix, x, ([1], [dim])).movedim(0, dim)


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


@every_map
@pytest.mark.parametrize("n", [2, 4])
def test_act_agrees_with_dense_on_every_axis(make: Make, kind: type[Map], n: int) -> None:
    g = make(kind, 5, n)
    for rep, ndim in product(representations(kind), (1, 2, 3)):
        for dim in range(-ndim, ndim):
            shape = [3] * ndim
            shape[dim] = n
            x = normal(*shape)
            torch.testing.assert_close(g.act(x, dim, rep), along(g.dense(rep), x, dim % ndim), rtol=0, atol=1e-13)


@every_map
@pytest.mark.parametrize("n", [2, 4])
def test_act_with_fibres_agrees_with_dense_slice_by_slice(make: Make, kind: type[Map], n: int) -> None:
    f = 3
    g = make(kind, 6, n, fibres=f)
    for rep, ndim in product(representations(kind), (2, 4)):
        for dim, base in permutations(range(ndim), 2):
            shape = [2] * ndim
            shape[dim], shape[base] = n, f
            x = normal(*shape)
            slices = [along(g.dense(rep)[i], x.select(base, i), dim - (base < dim)) for i in range(f)]
            wanted = torch.stack(slices, base)
            for d, b in product((dim, dim - ndim), (base, base - ndim)):
                torch.testing.assert_close(g.act(x, d, rep, b), wanted, rtol=0, atol=1e-13)


@every_map
def test_act_on_a_strided_view(make: Make, kind: type[Map]) -> None:
    g, x = make(kind, 8), normal(6, 8)[:, ::2].mT
    assert not x.is_contiguous()
    torch.testing.assert_close(g.act(x, 0), g.dense() @ x, rtol=0, atol=1e-13)


@every_map
def test_only_maps_that_send_units_to_units_have_a_permutation_part(make: Make, kind: type[Map]) -> None:
    g = make(kind, 9)
    if not permutes(kind.family):
        for attempt in (lambda: g.dense(Rep.PERM), lambda: g.act(normal(g.source), 0, Rep.PERM)):
            with pytest.raises(NotInFamily, match=f"'{kind.family}' has no permutation part"):
                attempt()
    elif kind.family is families.DOUBLY_STOCHASTIC:
        assert torch.equal(g.dense(Rep.PERM), g.dense())
    else:
        assert torch.equal(g.dense(Rep.PERM), (g.dense() != 0).double())


def test_index_and_scale_mean_out_i_is_scale_i_times_in_index_i() -> None:
    g = ScaledPermutation(torch.tensor([2, 0, 1]), torch.tensor([10.0, 20.0, 30.0]))
    x = torch.tensor([1.0, 2.0, 3.0])
    assert g.act(x, 0).tolist() == [30.0, 20.0, 60.0]
    assert g.act(x, 0, Rep.PERM).tolist() == [3.0, 1.0, 2.0]
    torch.testing.assert_close(g.act(x, 0, Rep.COV), torch.tensor([0.3, 0.05, 2 / 30]))


def test_rotary_multiplies_half_split_pairs_and_commutes_with_position() -> None:
    """x_j + i x_{j+n/2} -> z_j (x_j + i x_{j+n/2}); rotating by position angles is another such multiplication."""
    z, x = torch.tensor([1 + 2j, -0.5j]), torch.tensor([1.0, 2.0, 3.0, 4.0])
    g = Rotary(z.real, z.imag)
    product_ = z * torch.complex(x[:2], x[2:])
    torch.testing.assert_close(g.act(x, 0), torch.cat((product_.real, product_.imag)))
    angle = torch.tensor([1.0, 0.01]) * 17
    position = torch.cat((torch.diag(angle.cos()), torch.diag(angle.sin())), 1)
    position = torch.cat((position, torch.cat((torch.diag(-angle.sin()), torch.diag(angle.cos())), 1)))
    torch.testing.assert_close(position @ g.dense(), g.dense() @ position)


def test_act_computes_in_the_wider_dtype(make: Make) -> None:
    g = make(Orthogonal, 0)
    assert g.act(normal(4).float(), 0).dtype == torch.float64
    assert g.to(torch.float32).act(normal(4).bfloat16(), 0).dtype == torch.float32
    assert g.to(torch.float32).act(normal(4), 0).dtype == torch.float64


def test_refusals_name_the_axis_and_the_sizes(make: Make) -> None:
    single, fibred = make(Permutation, 0), make(Permutation, 0, fibres=3)
    with pytest.raises(LayoutMismatch, match=r"axis: 1\n  expected: 4\n  found: \(4, 5\)"):
        single.act(normal(4, 5), 1)
    with pytest.raises(LayoutMismatch, match="axis: 2"):
        single.act(normal(4, 4), 2)
    with pytest.raises(LayoutMismatch, match="expected: base_dim, an axis of length 3"):
        fibred.act(normal(3, 4), 1)
    with pytest.raises(LayoutMismatch, match="expected: no base_dim"):
        single.act(normal(3, 4), 1, base_dim=0)
    with pytest.raises(LayoutMismatch, match="expected: 3"):
        fibred.act(normal(2, 4), 1, base_dim=0)
    with pytest.raises(LayoutMismatch, match="axis that its fibres are over"):
        make(Permutation, 0, 4, fibres=4).act(normal(4, 4), 1, base_dim=-1)


def test_a_copy_without_a_share_reads_nothing():
    """The second of two copies writes nothing: as covector and as order it is not there either."""
    g = SemiPermutation(torch.tensor([0, 0, 1]), torch.tensor([1.0, 0.0, 1.0]))
    for rep in (Rep.COV, Rep.PERM):
        assert g.dense(rep).tolist() == [[1, 0], [0, 0], [0, 1]]
