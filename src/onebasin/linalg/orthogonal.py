"""Nearest orthogonal matrices (Procrustes), free or fixing the all-ones vector."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

NEWTON_STEPS = 30  # ten are usual, also for matrices that hardly have an inverse


@lru_cache(maxsize=8)
def _complement(n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False), torch.no_grad():
        v = torch.full((n,), n**-0.5, dtype=dtype, device=device)
        v[0] += 1
        return torch.eye(n, dtype=dtype, device=device)[:, 1:] - v[:, None] * v[1:] / v[0]


def ones_complement(n: int, *, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Tensor:
    """An orthonormal basis V of the complement of the all-ones vector, V^T V = I and V^T 1 = 0.

    The last n - 1 columns of the Householder reflection I - v v^T / v_1 with v = e_1 + 1/sqrt(n), which maps e_1 to
    -1/sqrt(n).

    Returns:
        (n, n - 1), the same for every call; shared between callers, so not to be written to.

    Cost: O(n^2), once per (n, dtype, device).
    """
    return _complement(n, dtype, torch.device(device))


def _rounding(dtype: torch.dtype) -> float:
    """Singular values below this, relative to the largest, may be rounding: 4e-11 in float64."""
    return float(torch.finfo(dtype).eps ** (2 / 3))


def polar(matrix: Tensor, near: Tensor | None = None) -> Tensor:
    """The nearest matrix with orthonormal columns (rows, if wide): argmin_Q |M - Q|_F = argmax_Q <M, Q> = U W^T.

    M = U S W^T is the thin singular value decomposition [1].  A matrix that lacks rank has many nearest ones, and
    rounding chooses among them; with `near`, it is the one of them that is nearest to that.

    Args:
        matrix: (..., m, n).
        near: (..., m, n).

    Cost: one SVD, O(m n min(m, n)); a second one where rank is lacking and `near` is given.  On a GPU, where an SVD
        is slow, that of `by_newton` for square matrices of full rank, if no gradient is asked for.
    Failure: without `near`, not unique if a singular value is zero.  The gradient is infinite where two singular values
        add up to zero; it is finite everywhere else, also where they coincide.

    [1] P. Schoenemann, A generalized solution of the orthogonal Procrustes problem, Psychometrika 31 (1966).
    """
    quick = by_newton(matrix) if matrix.is_cuda and not (torch.is_grad_enabled() and matrix.requires_grad) else None
    if quick is not None:
        return quick
    if near is not None:
        return _polar_near(matrix, near)
    nearest: Tensor = _Polar.apply(matrix)
    return nearest


def by_newton(matrix: Tensor) -> Tensor | None:
    """`polar` of square matrices by Newton's iteration, in products and inverses alone; None where rank may be lacking.

        X <- (g X + X^-T / g) / 2,   g^2 = |X^-1|_F / |X|_F

    keeps the singular vectors of X and drives all singular values to one [1]; near the end g is one, and the number of
    right digits doubles with every step.

    Cost: ten inverses or so.

    [1] N. Higham, Computing the polar decomposition - with applications, SIAM J. Sci. Stat. Comput. 7 (1986).
    """
    if matrix.shape[-1] != matrix.shape[-2]:
        return None
    x: Tensor = matrix
    close = torch.finfo(matrix.dtype).eps ** 0.5  # a step that moves so little has left half its square
    for step in range(NEWTON_STEPS):
        inverse, flaw = torch.linalg.inv_ex(x)
        size, opposite = (torch.linalg.matrix_norm(y, keepdim=True) for y in (x, inverse))
        if step == 0 and not bool(((flaw == 0) & (size * opposite * _rounding(x.dtype) < 1)[..., 0, 0]).all()):
            return None
        scale = (opposite / size).sqrt()
        scale = torch.where((scale - 1).abs() < 1e-2, 1.0, scale)
        after = (scale * x + inverse.mT / scale) / 2
        moved = torch.linalg.matrix_norm(after - x) / torch.linalg.matrix_norm(after)
        x = after
        if bool((moved < close).all()):
            return x
    return None


def _polar_near(matrix: Tensor, near: Tensor) -> Tensor:
    left, sizes, right = torch.linalg.svd(matrix, full_matrices=False)
    nearest: Tensor = left @ right
    seen = sizes > _rounding(matrix.dtype) * sizes[..., :1]
    if bool(seen.all()):
        return nearest
    left, right = left * seen.unsqueeze(-2), right * seen.unsqueeze(-1)
    unseen = near - left @ (left.mT @ near)
    unseen = unseen - (unseen @ right.mT) @ right
    return torch.where(seen.all(-1)[..., None, None], nearest, polar(left @ right + unseen))


class _Polar(torch.autograd.Function):
    """With P = U^T dM W the differential is dQ = U [(P - P^T)_ij / (s_i + s_j)] W^T + (1 - U U^T) dM W S^-1 W^T."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> Tensor:
        left, sizes, right = torch.linalg.svd(matrix, full_matrices=False)
        ctx.save_for_backward(left, sizes, right)
        nearest: Tensor = left @ right
        return nearest

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        left, sizes, right = ctx.saved_tensors
        inside = left.mT @ grad @ right.mT
        turned = (inside - inside.mT) / (sizes.unsqueeze(-1) + sizes.unsqueeze(-2))
        found: Tensor = left @ turned @ right
        m, n = grad.shape[-2:]
        if m > n:
            found = found + (grad @ right.mT - left @ inside) / sizes.unsqueeze(-2) @ right
        elif m < n:
            found = found + left @ ((left.mT @ grad - inside @ right) / sizes.unsqueeze(-1))
        return found


def polar_fixing_ones(matrix: Tensor, near: Tensor | None = None) -> Tensor:
    """The nearest orthogonal Q with Q1 = 1 or Q1 = -1: argmin_Q |M - Q|_F.

    Such a Q is V R V^T + s 1 1^T / n with V the basis of `ones_complement`, R orthogonal and s = 1 or -1, so the
    problem splits: R = polar(V^T M V) and s = sign(1^T M 1).

    Args:
        matrix: (..., n, n).
        near: (..., n, n), as in `polar`.

    Cost: that of `polar` of size n - 1.
    Failure: as `polar`, on the complement; s = 1 if the entries of M sum to zero (that of `near`, if given).
    """
    n = matrix.shape[-1]
    basis = ones_complement(n, dtype=matrix.dtype, device=matrix.device)
    inside = None if near is None else basis.mT @ near @ basis
    rotation = basis @ polar(basis.mT @ matrix @ basis, inside) @ basis.mT
    total = matrix.sum((-2, -1), keepdim=True)
    if near is not None:
        seen = total.abs() > _rounding(matrix.dtype) * n * torch.linalg.matrix_norm(matrix, keepdim=True)
        total = torch.where(seen, total, near.sum((-2, -1), keepdim=True))
    return rotation + torch.where(total < 0, -1.0, 1.0).to(matrix.dtype) / n
