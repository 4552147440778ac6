"""Where the loss is taken, batch by batch.

Between two models: λ, the share of B, uniform around the middle, or mostly where the path is highest.  Among M models:
λ on the simplex ~ Dirichlet(α·1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Generator, Tensor

from onebasin.errors import OnebasinError

Law = Callable[[int, Generator], Tensor]


def uniform(low: float, width: float) -> Law:
    return lambda n, g: low + width * torch.rand(n, generator=g, dtype=torch.float64)


LAWS: dict[str, Law] = {
    "middle": uniform(0.4, 0.2),
    "highest": uniform(0.0, 1.0),  # quantiles of a law that `where_highest` gives, again and again
}

PLACES = torch.arange(1, 10, dtype=torch.float64) / 10  # where the height of the path is measured
SHARPNESS = 20.0

DIRICHLET = "dirichlet"


def where_highest(quantile: Tensor, heights: Sequence[float]) -> Tensor:
    """λ of n batches, most of them where the path is highest.

    The barrier is a maximum:  min over g, max over λ  of  h(λ) = L(θ(λ)) − (1−λ) L(θ_A) − λ L(θ_B).  So λ is uniform
    within 0.05 of place k with probability ∝ exp(20 h_k / max h); where no place is higher than the line between the
    ends, it is uniform on [0.4, 0.6].

    Shapes: quantile (n,), numbers in [0, 1) with the same meaning whatever the heights; heights (9,), at `PLACES`.
    """
    h = torch.tensor(heights, dtype=torch.float64)
    if not h.max() > 0:
        return 0.4 + 0.2 * quantile
    share = (SHARPNESS * h / h.max()).softmax(0)
    below = share.cumsum(0) - share
    k = (torch.searchsorted(below, quantile.contiguous(), right=True) - 1).clamp(min=0)
    return PLACES[k] + 0.1 * ((quantile - below[k]) / share[k]).clamp(0, 1) - 0.05


def centre(models: int) -> Tensor:
    """λ where all models have the same share, (M,)."""
    return torch.full((models,), 1 / models, dtype=torch.float64)


def law_for(law: str, models: int) -> str:
    """The law itself, or for "auto" the one that so many models are given."""
    if law == "auto":
        return "middle" if models == 2 else DIRICHLET
    if models > 2 and law != DIRICHLET:
        raise OnebasinError(
            f"The law {law!r} draws the share of the second of two models",
            expected=DIRICHLET,
            found=f"{law} for {models} models",
            next_step="leave the law out",
        )
    return law


def draw_shares(law: str | Law, models: int, alpha: float, n: int, seed: int) -> Tensor:
    """λ (n, M) of n batches: (1−λ, λ) by a law of two models, or Dirichlet(α·1)."""
    if callable(law):
        return of_two(law(n, Generator().manual_seed(seed)))
    law = law_for(law, models)
    if law == DIRICHLET:
        return torch.from_numpy(np.random.default_rng(seed).dirichlet([alpha] * models, n))
    return of_two(LAWS[law](n, Generator().manual_seed(seed)))


def of_two(share: Tensor) -> Tensor:
    """(1−λ, λ) of every λ: (n,) to (n, 2)."""
    return torch.stack([1 - share, share], -1)
