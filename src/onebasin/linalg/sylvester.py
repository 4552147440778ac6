"""Sylvester equations  W S + S V + δ S = R,  with W and V symmetric and positive, for matrices that change little."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

RANK = 1e-10  # directions in which W and V together are weaker than this, relative to the strongest, are left alone
CLOSE = 1e-4  # how small the residual becomes, relative to R, each as the bases see it
ITERATIONS = 25  # of conjugate gradients; bases that need more are out of date


class Sylvester:
    """A batch of equations, (f, d, d), solved again and again while W and V move.

    In eigenbases of W and V the equation is diagonal.  Where the bases are those of earlier W and V, conjugate
    gradients make up for what has moved since; where that takes too long, bases are made anew.
    """

    def __init__(self, w: Tensor, v: Tensor) -> None:
        self.q, self.basis_w = torch.linalg.eigh(w)
        self.p, self.basis_v = torch.linalg.eigh(v)

    def take(self, index: Tensor) -> None:
        """Go on with some of the batch."""
        for name, value in vars(self).items():
            setattr(self, name, value[index])

    def solve(self, w: Tensor, v: Tensor, right: Tensor, damping: Tensor) -> Tensor:
        """S, with δ = `damping` times the largest eigenvalue of W and V together."""
        shift = damping[..., None, None] * (self.q.amax(-1) + self.p.amax(-1))[..., None, None]
        nearly = partial(self._nearly, shift=shift)
        found, late = _conjugate_gradients(lambda s: w @ s + s @ v + shift * s, right, nearly)
        if late.any():
            self.q[late], self.basis_w[late] = torch.linalg.eigh(w[late])
            self.p[late], self.basis_v[late] = torch.linalg.eigh(v[late])
            found = torch.where(late[..., None, None], nearly(right), found)
        return found

    def _nearly(self, right: Tensor, shift: Tensor) -> Tensor:
        """The solution for the W and V of the bases."""
        curvature = self.q.unsqueeze(-1).clamp_min(0) + self.p.unsqueeze(-2).clamp_min(0)
        seen = curvature > RANK * curvature.amax((-2, -1), keepdim=True)
        inside = (self.basis_w.mT @ right @ self.basis_v) / torch.where(seen, curvature + shift, torch.inf)
        found: Tensor = self.basis_w @ inside @ self.basis_v.mT
        return found


def _conjugate_gradients(
    apply: Callable[[Tensor], Tensor], right: Tensor, nearly: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """(x with A x = right for every one of the batch, which of them are not there yet); `nearly` is close to A^-1."""
    found, residual = torch.zeros_like(right), right
    direction = step = nearly(residual)
    first = here = (residual * step).sum((-2, -1), keepdim=True)
    late = first > 0
    for _ in range(ITERATIONS):
        if not late.any():
            break
        pushed = apply(direction)
        along = (direction * pushed).sum((-2, -1), keepdim=True)
        size = torch.where(late & (along > 0), here / along, 0.0)
        found, residual = found + size * direction, residual - size * pushed
        step, before = nearly(residual), here
        here = (residual * step).sum((-2, -1), keepdim=True)
        late = late & ~(here <= CLOSE**2 * first)
        direction = step + torch.where(late, here / before, 0.0) * direction
    return found, late[..., 0, 0]
