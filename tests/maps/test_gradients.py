"""Learning differentiates through the action, with respect to tensors and to maps."""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor

from onebasin import families
from onebasin.families import Rep
from onebasin.maps import MAPS, Map

Make = Callable[..., Map]
PERMUTING = {f for f in MAPS if f <= families.MONOMIAL} | {families.SEMI_PERMUTATION, families.DOUBLY_STOCHASTIC}
CASES = [(kind, rep) for kind, rep in product(MAPS.values(), Rep) if rep is not Rep.PERM or kind.family in PERMUTING]


@pytest.mark.parametrize("fibres", [None, 2])
@pytest.mark.parametrize(("kind", "rep"), CASES, ids=lambda case: getattr(case, "__name__", str(case)))
def test_gradient_of_the_action(make: Make, kind: type[Map], rep: Rep, fibres: int | None) -> None:
    tensors = make(kind, 3, 4, fibres=fibres).tensors()
    floating = [name for name, tensor in tensors.items() if tensor.is_floating_point()]
    x = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    base = None if fibres is None else 1

    def act(x: Tensor, *values: Tensor) -> Tensor:
        map_ = kind.from_tensors(tensors | dict(zip(floating, values, strict=True)))
        return map_.act(x, 0, rep, base)

    inputs = [t.clone().requires_grad_() for t in (x, *(tensors[name] for name in floating))]
    assert torch.autograd.gradcheck(act, inputs)


@pytest.mark.parametrize("kind", MAPS.values(), ids=lambda kind: kind.__name__)
def test_gradient_through_composition_and_dense(make: Make, kind: type[Map]) -> None:
    first = make(kind, 4, 4)
    tensors = make(kind, 5, first.target).tensors()
    floating = [name for name, tensor in tensors.items() if tensor.is_floating_point()]

    def composed(*values: Tensor) -> Tensor:
        return kind.from_tensors(tensors | dict(zip(floating, values, strict=True))).compose(first).dense()

    assert torch.autograd.gradcheck(composed, [tensors[name].clone().requires_grad_() for name in floating])
