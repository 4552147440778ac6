"""Plain inverses, where they will do: a GPU takes milliseconds for the eigenvectors of each small matrix."""

from __future__ import annotations

import torch
from torch import Tensor


def invert(g: Tensor, condition: float) -> tuple[Tensor, Tensor]:
    """(f, d, d) inverses, and (f,) which matrices may be worse conditioned than this: their inverse is not to be used.

    The bound is |g|_F |g^-1|_F, which is never below the condition.  On a CPU, where eigenvectors are cheap, every
    matrix is said to be doubtful, and nothing is inverted.
    """
    if not g.is_cuda:
        return torch.zeros_like(g), torch.ones(g.shape[:-2], dtype=torch.bool)
    return invert_bounded(g, condition)


def invert_bounded(g: Tensor, condition: float) -> tuple[Tensor, Tensor]:
    """`invert` on any device."""
    inverse, flaw = torch.linalg.inv_ex(g)
    bound = torch.linalg.matrix_norm(g) * torch.linalg.matrix_norm(inverse)
    return inverse, ~((flaw == 0) & (bound < condition))
