"""Random members of any family, from a seed."""

from collections.abc import Callable

import pytest
import torch

from onebasin.maps import Map


@pytest.fixture(scope="session")
def make() -> Callable[..., Map]:
    """make(kind, seed, n, m, fibres): a sample R^n -> R^m; where the family is rectangular, m is n + 2 unless given."""

    def sample(kind: type[Map], seed: int, n: int = 4, m: int | None = None, fibres: int | None = None) -> Map:
        m = m or (n + 2 if kind.admits(n, n + 2) else n)
        return kind.sample(n, target=m, generator=torch.Generator().manual_seed(seed), fibres=fibres)

    return sample
