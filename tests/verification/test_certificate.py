"""Figures of the certificate, against maps that are wrong on purpose."""

import pytest
import torch

from onebasin import Alignment
from onebasin.maps import Invertible, Orthogonal, Permutation
from onebasin.verification.certificate import orthogonality_error

F64 = torch.float64


def test_the_orthogonality_error_is_that_of_the_worst_entry_of_the_worst_map():
    exact = Orthogonal(torch.linalg.qr(torch.randn(5, 5, dtype=F64, generator=torch.Generator().manual_seed(0)))[0])
    stretched = Orthogonal(exact.dense() @ torch.diag(torch.tensor([1, 1, 1.01, 1, 1], dtype=F64)))
    others = {"same": Permutation.identity(3), "free": Invertible(3 * torch.eye(2, dtype=F64))}

    def error(**maps: Orthogonal) -> float:
        return orthogonality_error(Alignment({**maps, **others}, dict.fromkeys([*maps, *others])))

    assert error(a=exact) < 1e-14
    for order in ({"a": exact, "b": stretched}, {"a": stretched, "b": exact}):
        assert error(**order) == pytest.approx(1.01**2 - 1)
