"""Large assignments over the best candidates alone, with prices that tell whether other entries were needed.

The dual of  max Σ s_i,c(i)  is  min Σ u_i + Σ v_j  with  u_i + v_j ≥ s_ij  for all i, j: v_j is the price of column j,
and u_i = max_j s_ij − v_j what row i gains by its best buy.  Any prices bound how far an assignment is from the best;
those of the candidates are tight on the candidates, and an entry that breaks the bound is one that is missing there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from torch import Tensor

if TYPE_CHECKING:
    from numpy import ndarray

FEW = 64  # candidates of every row and of every column
ROUNDS = 3000  # of improving the prices, at most
STEPS = 2**36  # between the least score and the largest; sums over long paths are still exact in float64


def solve_sparse(matrix: csr_matrix) -> ndarray:
    """The column of every row in the matching of the largest sum; scipy holds the interpreter's lock meanwhile."""
    columns: ndarray = min_weight_full_bipartite_matching(matrix, maximize=True)[1]
    return columns


def relative_gap(scores: Tensor, index: Tensor, prices: Tensor) -> float:
    """How far `index` can be from the best assignment, by these prices, relative to the size of its scores."""
    chosen = scores.gather(1, index.to(scores.device)[:, None])
    bound = (scores - prices.to(scores)).amax(1).sum() + prices.sum()
    return float((bound - chosen.sum()) / chosen.abs().sum().clamp_min(torch.finfo(scores.dtype).tiny))


@dataclass(frozen=True)
class Candidates:
    """The best entries of every row and of every column, and the diagonal, so that a full matching exists.

    `places` are i·n + j in order, `scores` the entries there.
    """

    n: int
    places: Tensor
    scores: Tensor

    @classmethod
    def of(cls, scores: Tensor, prices: Tensor | None = None, known: Tensor | None = None) -> Candidates:
        """Those of a square matrix, on its device; best after `prices` of columns, and with places `known` before."""
        n, reduced = len(scores), scores if prices is None else scores - prices.to(scores)
        few, here = min(FEW, n), torch.arange(n, device=scores.device)
        by_row, by_column = reduced.topk(few, 1).indices, reduced.topk(few, 0).indices
        places = [
            here[:, None] * n + by_row,
            by_column * n + here,
            here * n + here,
            *([] if known is None else [known]),
        ]
        joined = torch.cat([place.flatten() for place in places]).unique()
        return cls(n, joined, scores.flatten()[joined].double())

    @property
    def rows(self) -> Tensor:
        return self.places // self.n

    @property
    def columns(self) -> Tensor:
        return self.places % self.n

    def matrix(self) -> csr_matrix:
        """For `solve_sparse`.  Scores are positive, as zeros would count as no edges; and whole, as rounding can make
        scipy's solver go round in circles for ever."""
        above = self.scores - self.scores.min()
        whole = (above / above.max().clamp_min(torch.finfo(above.dtype).tiny) * STEPS).round() + 1
        first = torch.searchsorted(self.places, self.n * torch.arange(self.n + 1, device=self.places.device))
        parts = (whole, self.columns.int(), first.int())
        return csr_matrix(tuple(x.cpu().numpy() for x in parts), shape=(self.n, self.n))

    def prices(self, index: Tensor) -> Tensor:
        """The prices v of the best assignment over the candidates, with which all of them are covered tightly.

        v_j ← max_i s_ij − (s_i,c(i) − v_c(i))  until nothing changes: longest paths, as Bellman and Ford find them.
        """
        rows, columns, index = self.rows, self.columns, index.to(self.places.device)
        chosen, mine = self.scores.new_empty(self.n), columns == index[rows]
        chosen[rows[mine]] = self.scores[mine]
        prices, edges = torch.zeros_like(chosen), torch.arange(len(rows), device=rows.device)
        for _ in range(ROUNDS):
            gained = self.scores[edges] - (chosen - prices[index])[rows[edges]]
            new = prices.scatter_reduce(0, columns[edges], gained, "amax")
            edges = (new > prices)[index][rows].nonzero().squeeze(-1)  # of rows whose own column has risen
            prices = new
            if not len(edges):
                break
        return prices
