"""Semi-permutations: units split into convex shares."""

from __future__ import annotations

from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from onebasin import families
from onebasin.families import Rep
from onebasin.linalg import assign, nearest_simplex
from onebasin.maps.base import Map
from onebasin.maps.indexed import Indexed
from onebasin.maps.members import Draw
from onebasin.maps.monomial import matched


class SemiPermutation(Indexed, family=families.SEMI_PERMUTATION):
    """S (m, n), m >= n, with entries >= 0, columns that sum to one and at most one positive entry per row.

    Row i holds a share `scale`_i >= 0 of unit `index`_i; a row without a share is dead.  As vector the map is S, as
    covector and as permutation part the 0/1 pattern Z of S.  Because Z^T S = I, splitting a ReLU unit or the value and
    output maps of a head keeps the function exactly.
    """

    widens = True

    @cached_property
    def _size(self) -> tuple[int, int]:
        """Every unit has a share, so the largest index is n - 1."""
        return int(self.index.max()) + 1, self.index.shape[-1]

    def _scale(self, rep: Rep) -> Tensor:
        return self.scale if rep is Rep.VEC else (self.scale > 0).to(self.dtype)

    def inverse(self) -> Self:
        """Of a square one, which is a permutation."""
        return super().inverse() if self.source == self.target else Map.inverse(self)

    @classmethod
    def _draw(cls, source: int, target: int, draw: Draw) -> Self:
        """Every unit gets a row, the other rows a random unit; the shares of one unit differ by at most `condition`."""
        spare = (draw.uniform(target - source) * source).long()
        index = torch.cat((draw.permutation(source), spare), -1).gather(-1, draw.permutation(target))
        weight = draw.scales(target)
        total = torch.zeros_like(weight).scatter_add(-1, index, weight)
        return cls(index, weight / total.gather(-1, index))

    @classmethod
    def _nearest(cls, matrix: Tensor, floor: float, near: Tensor | None = None) -> Self:
        """Column by column the nearest shares, until no row holds two: a row that does keeps its largest one.

        Before that, each unit gets a row of its own by assignment, so that none is left without.  The shares are the
        nearest for the pattern that is found; the pattern is a good one, the best for matrices near the family, not
        always the best for others (choosing it is a combinatorial problem).
        """
        units = torch.arange(matrix.shape[-1], device=matrix.device)
        nothing = matrix.amin((-2, -1), keepdim=True) - 2  # too far below any column's maximum to get a share
        owned = assign(matrix.mT).unsqueeze(-1) == torch.arange(matrix.shape[-2], device=matrix.device)
        allowed = owned.mT | ~owned.any(-2).unsqueeze(-1)
        while True:
            shares = nearest_simplex(torch.where(allowed, matrix, nothing).mT).mT
            unit = shares.argmax(-1)
            twice = (shares > 0).sum(-1, keepdim=True) > 1
            if not twice.any():
                return cls(unit, matched(shares, unit))
            allowed = allowed & (~twice | (unit.unsqueeze(-1) == units))
