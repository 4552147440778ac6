"""Where on the path the loss is taken: λ, the share of B, batch by batch (P1's laws, also for unequal sizes)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from onebasin.errors import OnebasinError
from onebasin.spec import ModelSpec

Law = Callable[[int, Generator], Tensor]


def _uniform(low: float, width: float) -> Law:
    return lambda n, g: low + width * torch.rand(n, generator=g, dtype=torch.float64)


LAWS: dict[str, Law] = {
    "middle": _uniform(0.4, 0.2),
    "half": lambda n, g: torch.full((n,), 0.5, dtype=torch.float64),
    "full": _uniform(0.0, 1.0),
    "normal": lambda n, g: (0.5 + 0.1 * torch.randn(n, generator=g, dtype=torch.float64)).clamp(0, 1),
    "near-a": _uniform(0.2, 0.3),
    "near-b": _uniform(0.5, 0.3),
}


def of_pair(law: str, a: ModelSpec, b: ModelSpec) -> str:
    """The law for two models as they were: "small-end" gives the larger a share in [0.2, 0.5] (P1's code)."""
    if law != "small-end":
        return law
    sizes = [sum(math.prod(shape) for shape in spec.keys.values()) for spec in (a, b)]
    if sizes[0] == sizes[1]:
        raise OnebasinError(
            "The law 'small-end' needs a larger and a smaller model",
            found=f"{sizes[0]} parameters each",
            next_step="take the law 'middle', or 'near-a' or 'near-b'",
        )
    return "near-a" if sizes[0] < sizes[1] else "near-b"


def draw(law: str, n: int, seed: int) -> Tensor:
    """λ of n batches."""
    return LAWS[law](n, Generator().manual_seed(seed))
