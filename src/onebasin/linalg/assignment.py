"""The linear assignment problem: dense where it is small, over the best candidates where it is large."""

from __future__ import annotations

import warnings

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from onebasin.linalg.candidates import Candidates, relative_gap, solve_sparse

LARGE = 1024  # smaller problems are solved as they are
DENSE = 8192  # larger ones would take many minutes so
ENOUGH = 1e-6  # how far from the best an assignment may be, as a part of the size of its scores
ROUNDS = 8  # of adding candidates


def assign(scores: Tensor) -> Tensor:
    """The best one-to-one assignment of rows to columns: argmax over injective c of sum_i scores[i, c(i)].

    Args:
        scores: (..., m, n) with m <= n, finite.

    Returns:
        c as a LongTensor (..., m) on the device of `scores`.

    Cost: O(m^2 n) per matrix, on the CPU in float64 [1].  Square problems of more than `LARGE` rows are solved over
        their best candidates and certified: 4096 x 4096 in a tenth of the time.
    Failure: NaN or infinite scores raise ValueError; among several optima an arbitrary one is returned.

    [1] D. Crouse, On implementing 2D rectangular assignment algorithms, IEEE Trans. AES 52 (2016), as in scipy.
    """
    *batch, m, n = scores.shape
    if m > n:
        raise ValueError(f"assign needs at least as many columns as rows, found {m} x {n}; transpose the scores")
    if not scores.isfinite().all():
        raise ValueError("assign needs finite scores, found NaN or infinity")
    one = assign_by_candidates if LARGE < m == n else _dense
    columns = [one(problem) for problem in scores.detach().reshape(-1, m, n)]
    return torch.stack(columns).reshape(*batch, m).to(scores.device, torch.long)


def assign_by_candidates(scores: Tensor) -> Tensor:
    """One square problem over its best candidates."""
    candidates = Candidates.of(scores)
    return improve(scores, candidates, torch.from_numpy(solve_sparse(candidates.matrix())))


def improve(scores: Tensor, candidates: Candidates, index: Tensor) -> Tensor:
    """From the best assignment over candidates to that over all entries: those that prices leave uncovered join in."""
    for _ in range(ROUNDS):
        prices = candidates.prices(index)
        if (gap := relative_gap(scores, index, prices)) <= ENOUGH:
            return index
        candidates = Candidates.of(scores, prices, candidates.places)
        index = torch.from_numpy(solve_sparse(candidates.matrix()))
    if len(scores) <= DENSE:
        return _dense(scores)
    warnings.warn(f"an assignment of {len(scores)} units may be {gap:.1e} short of the best", stacklevel=2)
    return index


def _dense(scores: Tensor) -> Tensor:
    return torch.from_numpy(linear_sum_assignment(scores.to("cpu", torch.float64).numpy(), maximize=True)[1])
