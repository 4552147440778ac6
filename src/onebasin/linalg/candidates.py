"""Large assignments over the best candidates alone, certified by duals without looking at the other entries.

The dual of  max Σ s_i,c(i)  is  min Σ u_i + Σ v_j  with  u_i + v_j ≥ s_ij  for all i, j.  Any such u, v bound how far
an assignment is from the best.  Entries that are no candidates are below the least candidate of their row, or of
their column, and so the bound is known without them.
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

FEW = 128  # candidates of every row and of every column; of more than 8192 one in 64
ENOUGH = 1e-6  # how far from the best an assignment may be, as a part of the size of its scores
ROUNDS = 300  # of improving the duals, at most
STEPS = 2**36  # between the least score and the largest; sums over long paths are still exact in float64


def solve_sparse(matrix: csr_matrix) -> ndarray:
    """The column of every row in the matching of the largest sum; scipy holds the interpreter's lock meanwhile."""
    columns: ndarray = min_weight_full_bipartite_matching(matrix, maximize=True)[1]
    return columns


@dataclass(frozen=True)
class Candidates:
    """The best entries of every row and of every column, and the diagonal, so that a full matching exists.

    Entries (i, j) that are none of them are at most `floor_rows[i]` and at most `floor_columns[j]`.
    """

    rows: Tensor
    columns: Tensor
    scores: Tensor
    floor_rows: Tensor
    floor_columns: Tensor

    @classmethod
    def of(cls, scores: Tensor, times: int = 1) -> Candidates:
        """Those of a square matrix, or some `times` as many; on its device."""
        n = len(scores)
        few = min(times * max(FEW, n // 64), n)
        here = torch.arange(n, device=scores.device)
        by_row, by_column = scores.topk(few, 1), scores.topk(few, 0)
        places = [here[:, None] * n + by_row.indices, by_column.indices * n + here, here * n + here]
        places = torch.cat([place.flatten() for place in places]).unique()
        rows, columns = places // n, places % n
        values = scores[rows, columns].double()
        return cls(rows, columns, values, by_row.values[:, -1].double().contiguous(), by_column.values[-1].double())

    def matrix(self) -> csr_matrix:
        """For `solve_sparse`.  Scores are positive, as zeros would count as no edges; and whole, as rounding can make
        scipy's solver go round in circles for ever."""
        above = self.scores - self.scores.min()
        whole = (above / above.max().clamp_min(torch.finfo(above.dtype).tiny) * STEPS).round() + 1
        data, rows, columns = (x.cpu().numpy() for x in (whole, self.rows, self.columns))
        return csr_matrix((data, (rows, columns)), shape=(len(self.floor_rows),) * 2)

    def gap(self, index: Tensor) -> float:
        """How far `index` can be from the best assignment of all entries, relative to the size of its scores.

        With  v_j ← max_i s_ij − (s_i,c(i) − v_c(i))  until nothing changes (longest paths, as Bellman and Ford find
        them), the duals are tight on the candidates; then u takes what it must for every entry, the floors included.
        """
        index = index.to(self.rows.device)
        chosen = torch.empty_like(self.floor_rows)
        mine = self.columns == index[self.rows]
        chosen[self.rows[mine]] = self.scores[mine]
        v = torch.zeros_like(chosen)
        edges = torch.arange(len(self.rows), device=v.device)
        for _ in range(ROUNDS):
            rows = self.rows[edges]
            new = v.scatter_reduce(0, self.columns[edges], self.scores[edges] - (chosen - v[index])[rows], "amax")
            edges = (new > v)[index][self.rows].nonzero().squeeze(-1)  # of rows whose own column has risen
            v = new
            if not len(edges):
                break
        u = self._above_floors(v).scatter_reduce(0, self.rows, self.scores - v[self.columns], "amax")
        return float((u.sum() + v.sum() - chosen.sum()) / chosen.abs().sum().clamp_min(torch.finfo(u.dtype).tiny))

    def _above_floors(self, v: Tensor) -> Tensor:
        """u_i = max_j min(floor_rows_i, floor_columns_j) − v_j: columns with the lower floor first, then the others."""
        floors, order = self.floor_columns.sort()
        lower = torch.cat([v.new_full((1,), -torch.inf), (floors - v[order]).cummax(0).values])
        cheapest = torch.cat([v[order].flip(0).cummin(0).values.flip(0), v.new_full((1,), torch.inf)])
        count = torch.searchsorted(floors, self.floor_rows)
        return torch.maximum(lower[count], self.floor_rows - cheapest[count])
