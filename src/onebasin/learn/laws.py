"""Where on the path the loss is taken: λ, the share of B, batch by batch (P1's four laws)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

Law = Callable[[int, Generator], Tensor]

LAWS: dict[str, Law] = {
    "middle": lambda n, g: 0.4 + 0.2 * torch.rand(n, generator=g, dtype=torch.float64),
    "half": lambda n, g: torch.full((n,), 0.5, dtype=torch.float64),
    "full": lambda n, g: torch.rand(n, generator=g, dtype=torch.float64),
    "normal": lambda n, g: (0.5 + 0.1 * torch.randn(n, generator=g, dtype=torch.float64)).clamp(0, 1),
}


def draw(law: str, n: int, seed: int) -> Tensor:
    """λ of n batches."""
    return LAWS[law](n, Generator().manual_seed(seed))
