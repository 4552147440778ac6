"""What groups of matrices with one non-zero entry per row and column share.

Such a group is told by four things: whether units may change places (`permutes`), whether their scales may be negative
(`signed`) or differ from one in size (`scaled`), and how many scales may be chosen freely (`free`).
"""

from __future__ import annotations

from typing import ClassVar, Self

import torch
from torch import Tensor

from onebasin.linalg import assign
from onebasin.maps.draw import Draw
from onebasin.maps.indexed import Indexed
from onebasin.maps.members import least


class MonomialGroup(Indexed):
    """Matrices D P, P a permutation and D a diagonal of scales, each restricted as the family says."""

    permutes: ClassVar[bool] = False
    signed: ClassVar[bool] = False
    scaled: ClassVar[bool] = False

    @classmethod
    def free(cls, n: int) -> int:
        """How many scales are free, k; the scale of unit i is the free scale i mod k."""
        return n

    @classmethod
    def _admitted(cls, t: Tensor, smallest: Tensor) -> Tensor:
        """The admitted scale s nearest to t, entry by entry."""
        size = torch.maximum(t.abs() if cls.signed else t, smallest) if cls.scaled else torch.ones_like(t)
        return torch.where(t < 0, -size, size) if cls.signed else size

    @classmethod
    def _draw(cls, source: int, target: int, draw: Draw) -> Self:
        free = cls.free(source)
        scale = draw.scales(free) if cls.scaled else draw.ones(free)
        if cls.signed:
            scale = scale * draw.signs(free)
        ordered = torch.arange(source, device=scale.device).expand(*scale.shape[:-1], source).clone()
        return cls(draw.permutation(source) if cls.permutes else ordered, scale.tile(source // free))

    @classmethod
    def _nearest(cls, matrix: Tensor, floor: float) -> Self:
        """Minimise |M - D P|_F^2, that is, maximise sum_i 2 s_i M_ip(i) - s_i^2.

        First p, by the best that s can make of each entry; then s from the matched entries, averaged over those that
        share a scale.
        """
        n = matrix.shape[-1]
        smallest = least(matrix.abs().flatten(-2), floor)
        index = torch.arange(n, device=matrix.device).expand(matrix.shape[:-1]).clone()
        if cls.permutes:
            best = cls._admitted(matrix, smallest.unsqueeze(-1))
            index = assign(best * (2 * matrix - best))
        shared = matched(matrix, index).unflatten(-1, (-1, cls.free(n))).mean(-2)
        return cls(index, cls._admitted(shared, smallest).tile(n // cls.free(n)))


def matched(matrix: Tensor, index: Tensor) -> Tensor:
    """The entries matrix[i, index[i]], (f?, n)."""
    return matrix.gather(-1, index.unsqueeze(-1)).squeeze(-1)
