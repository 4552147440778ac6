"""Rotations and other matrices near the identity from free coordinates, with finite gradients at zero.

Everything but `cayley` without `steps` is made of matrix products alone, so that on a GPU nothing waits for the host.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def skew(z: Tensor) -> Tensor:
    """(Z − Zᵀ)/2, of (..., n, n)."""
    return (z - z.mT) / 2


def centred(z: Tensor) -> Tensor:
    """M Z M with M = I − 11ᵀ/n: rows and columns sum to zero, so that what is made of it fixes the all-ones vector."""
    z = z - z.mean(-1, keepdim=True)
    return z - z.mean(-2, keepdim=True)


def cayley(s: Tensor, steps: int | None = None) -> Tensor:
    """(I + S)⁻¹ (I − S) = 2 (I + S)⁻¹ − I, a rotation without eigenvalue −1, for S skew.

    Args:
        s: (..., n, n).
        steps: None for an LU factorisation; a number for that many Newton steps, which are products only.

    The gradient needs no second solve: with R = (I + S)⁻¹,  dQ = −2 R dS R.

    Failure: Newton steps leave an error where S is large: rotations by angles up to 150 degrees take 10 in float32.
    """
    rotation: Tensor = _Cayley.apply(s, steps)
    return rotation


class _Cayley(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor, steps: int | None) -> Tensor:
        eye = torch.eye(s.shape[-1], dtype=s.dtype, device=s.device)
        resolvent = torch.linalg.inv_ex(eye + s).inverse if steps is None else _resolvent(s, eye, steps)
        ctx.save_for_backward(resolvent)
        return 2 * resolvent - eye

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (resolvent,) = ctx.saved_tensors
        return -2 * resolvent.mT @ grad @ resolvent.mT, None


def _resolvent(s: Tensor, eye: Tensor, steps: int) -> Tensor:
    """(I + S)⁻¹ = (I − S)(I − S²)⁻¹.  The last factor, with eigenvalues from 1 to 1 + σ², by Newton's X ← X(2 − HX).

    X starts at 2/(2 + b) I, where b = |S⁴|_F^½ is at least σ².
    """
    square = s @ s
    bound = torch.linalg.matrix_norm(square @ square, keepdim=True).sqrt()
    h, x = eye - square, 2 / (2 + bound) * eye
    for _ in range(steps):
        x = x @ (2 * eye - h @ x)
    inverse: Tensor = (eye - s) @ x
    return inverse


def expm(x: Tensor, squarings: int = 5, degree: int = 8) -> Tensor:
    """exp X by the Taylor polynomial of X/2^squarings, squared; relative error below 1e-12 for |X| up to 3.

    `torch.matrix_exp` chooses its degree by the norm of X, which it reads on the host; this one does not wait.
    """
    eye = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    small, result = x / 2**squarings, eye
    for k in range(degree, 0, -1):
        result = eye + small @ result / k
    for _ in range(squarings):
        result = result @ result
    return result
