"""Probability vectors and doubly stochastic matrices."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

_MAX_STEPS = 500
_DAMPING = 1e-5


def running_shares(weight: Tensor) -> Tensor:
    """λ_m / (λ_1 + ... + λ_m) for a point λ of the simplex, (M, ...): what a running mean takes of part m."""
    return weight / weight.cumsum(0).clamp_min(torch.finfo(weight.dtype).tiny)


def mixture(parts: Sequence[Tensor], shares: Tensor) -> Tensor:
    """sum_m λ_m x_m of M tensors of one shape, as a running mean with the `running_shares` of λ.

    Shares (M, ...) with more axes go with the first axes of the tensors.

    Cost: one pass over each further part; for two it is torch.lerp.
    """
    mean = parts[0]
    for part, share in zip(parts[1:], shares[1:].unbind(), strict=True):
        wide = share.reshape(*share.shape, *[1] * (part.ndim - share.ndim)) if share.ndim else share
        mean = torch.lerp(mean, part, wide)
    return mean


def outer_sum(parts: Sequence[Tensor]) -> Tensor:
    """v_1[i] + v_2[j] + ... for all i, j, ...: one axis (the axes of the first) for each vector."""
    total = parts[0]
    for part in parts[1:]:
        total = total.unsqueeze(-1) + part
    return total


def nearest_simplex(x: Tensor) -> Tensor:
    """The nearest probability vector along the last axis: argmin |x - p|_2 subject to p >= 0, sum p = 1.

    p = max(x - t, 0), where t makes the sum one; it is found from the sorted entries u_1 >= u_2 >= ... [1]:
    t = (u_1 + ... + u_k - 1) / k with k the last index such that u_k > (u_1 + ... + u_k - 1) / k.

    Args:
        x: (..., n).

    Cost: one sort, O(n log n).

    [1] J. Duchi et al., Efficient projections onto the l1-ball, ICML 2008.
    """
    ordered = x.sort(dim=-1, descending=True).values
    count = torch.arange(1, x.shape[-1] + 1, device=x.device)
    levels = (ordered.cumsum(-1) - 1) / count
    support = (ordered > levels).sum(-1, keepdim=True)
    return (x - levels.gather(-1, support - 1)).clamp(min=0)


def sinkhorn(log_scores: Tensor, iterations: int) -> Tensor:
    """Scale exp(log_scores) towards a doubly stochastic matrix, in the log domain.

    Alternately normalises rows and columns; the limit is argmax <S, P> + entropy(P) over doubly stochastic P [1].

    Args:
        log_scores: S, (..., n, n).
        iterations: number of (row, column) sweeps.

    Returns:
        (..., n, n) with positive entries; columns sum to one exactly, rows in the limit.

    Cost: O(n^2) a sweep; differentiable.
    Failure: slow where S is far from constant (the nearer P is to a permutation the more sweeps it takes).

    [1] R. Sinkhorn, A relationship between arbitrary positive matrices and doubly stochastic matrices, 1964;
        M. Cuturi, Sinkhorn distances, NeurIPS 2013.
    """
    for _ in range(iterations):
        log_scores = log_scores - log_scores.logsumexp(-1, keepdim=True)
        log_scores = log_scores - log_scores.logsumexp(-2, keepdim=True)
    return log_scores.exp()


def nearest_doubly_stochastic(matrix: Tensor) -> Tensor:
    """The nearest doubly stochastic matrix: argmin |M - P|_F subject to P >= 0, P1 = 1, P^T 1 = 1.

    P = max(M + u 1^T + 1 v^T, 0), where (u, v) minimises the convex dual |max(M + u 1^T + 1 v^T, 0)|^2 / 2 - sum(u) -
    sum(v).  A damped semismooth Newton method finds it; the slope is the excess of the row and column sums [1].

    Args:
        matrix: (..., n, n).

    Cost: one solve of size 2n a step, in float64; about ten steps, tens if entries are much larger than one.  Not
        differentiable.
    Failure: a RuntimeWarning if the sums still miss one by more than rounding after the last step (not seen up to
        entries of 1e6).

    [1] X. Li, D. Sun, K.-C. Toh, On the efficient computation of a projector over the Birkhoff polytope,
        SIAM J. Optim. 30 (2020).
    """
    n = matrix.shape[-1]
    nearest = [_birkhoff(one) for one in matrix.detach().reshape(-1, n, n).double()]
    return torch.stack(nearest).reshape(matrix.shape).to(matrix.dtype)


def _birkhoff(m: Tensor) -> Tensor:
    n = m.shape[-1]
    y = m.new_zeros(2 * n)
    rounding = 100 * n * torch.finfo(m.dtype).eps * (1 + m.abs().max())
    for _ in range(_MAX_STEPS):
        excess = _excess(m, y)
        if excess.abs().max() <= rounding:
            break
        step = torch.linalg.solve(_hessian(_primal(m, y) > 0), -excess)
        y = _line_search(m, y, excess, step)
    else:
        worst = float(_excess(m, y).abs().max())
        warnings.warn(f"row and column sums miss one by {worst:.1e}", RuntimeWarning, stacklevel=4)
    return _primal(m, y)


def _primal(m: Tensor, y: Tensor) -> Tensor:
    return (m + y[: len(m), None] + y[len(m) :]).clamp(min=0)


def _excess(m: Tensor, y: Tensor) -> Tensor:
    p = _primal(m, y)
    return torch.cat((p.sum(1), p.sum(0))) - 1


def _hessian(active: Tensor) -> Tensor:
    """Of the dual: the bipartite graph of the positive entries, degrees on the diagonal; damped, for it is singular."""
    edges = active.double()
    degrees = torch.cat((edges.sum(1), edges.sum(0)))
    blocks: Tensor = torch.block_diag(edges, edges.mT).roll(len(edges), 1)
    return blocks + torch.diag(degrees + _DAMPING)


def _line_search(m: Tensor, y: Tensor, slope: Tensor, step: Tensor) -> Tensor:
    """Halve the step until the dual falls by a fixed part of what the slope promises (Armijo), or the slope halves."""

    def dual(at: Tensor) -> Tensor:
        return _primal(m, at).square().sum() / 2 - at.sum()

    start, promised, size = dual(y), slope @ step, 1.0
    while size > 1e-10:
        new = y + size * step
        if dual(new) <= start + 1e-4 * size * promised or _excess(m, new).norm() <= slope.norm() / 2:
            break
        size /= 2
    return new
