"""The linear assignment problem."""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor


def assign(scores: Tensor) -> Tensor:
    """The best one-to-one assignment of rows to columns: argmax over injective c of sum_i scores[i, c(i)].

    Args:
        scores: (..., m, n) with m <= n, finite.

    Returns:
        c as a LongTensor (..., m) on the device of `scores`.

    Cost: O(m^2 n) per matrix, on the CPU in float64 [1]; dense 4096 x 4096 takes seconds.
    Failure: NaN or infinite scores raise ValueError; among several optima an arbitrary one is returned.

    [1] D. Crouse, On implementing 2D rectangular assignment algorithms, IEEE Trans. AES 52 (2016), as in scipy.
    """
    *batch, m, n = scores.shape
    if m > n:
        raise ValueError(f"assign needs at least as many columns as rows, found {m} x {n}; transpose the scores")
    if not scores.isfinite().all():
        raise ValueError("assign needs finite scores, found NaN or infinity")
    problems = scores.detach().reshape(-1, m, n).to("cpu", torch.float64).numpy()
    columns = [torch.from_numpy(linear_sum_assignment(problem, maximize=True)[1]) for problem in problems]
    return torch.stack(columns).reshape(*batch, m).to(scores.device, torch.long)
