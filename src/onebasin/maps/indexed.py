"""Maps with at most one non-zero entry per row: y_i = scale_i x_index(i)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from onebasin.families import Rep
from onebasin.maps.base import Map


@dataclass(frozen=True, eq=False, repr=False)
class Indexed(Map):
    """The arithmetic shared by permutations, scalings and semi-permutations; a row costs one index and one number."""

    index: Tensor  # (f?, m), long
    scale: Tensor  # (f?, m)
    _rank: ClassVar[int] = 1

    @property
    def _values(self) -> Tensor:
        return self.scale

    @property
    def _size(self) -> tuple[int, int]:
        return self.index.shape[-1], self.index.shape[-1]

    def _scale(self, rep: Rep) -> Tensor:
        """The non-zero entries: s for VEC, 1/s for COV, one for PERM."""
        match rep:
            case Rep.VEC:
                return self.scale
            case Rep.COV:
                return 1 / self.scale
            case Rep.PERM:
                return torch.ones_like(self.scale)

    def dense(self, rep: Rep = Rep.VEC) -> Tensor:
        """Entry scale_i at (i, index_i), zero elsewhere."""
        scale = self._scale(rep)
        return scale.new_zeros(*scale.shape, self.source).scatter(-1, self.index.unsqueeze(-1), scale.unsqueeze(-1))

    def _act(self, x: Tensor, dim: int, base: int | None, rep: Rep) -> Tensor:
        if base is None:
            rows = x.index_select(dim, self.index)
        else:
            rows = torch.take_along_dim(x, along(self.index, x.ndim, dim, base), dim)
        return rows * along(self._scale(rep), x.ndim, dim, base)

    def _after(self, first: Self) -> Self:
        return type(self)(first.index.gather(-1, self.index), self.scale * first.scale.gather(-1, self.index))

    @classmethod
    def _from(cls, smaller: Map) -> Self:
        return cls.from_tensors(smaller.tensors())

    def inverse(self) -> Self:
        """y_i = s_i x_p(i) gives x_j = y_q(j) / s_q(j) with q the inverse of p."""
        back = self.index.argsort(-1)
        return type(self)(back, 1 / self.scale.gather(-1, back))

    def _displacement(self) -> Tensor:
        row = torch.arange(self.target, device=self.device)
        moved = self.scale.square() + (row < self.source)
        return torch.where(self.index == row, (self.scale - 1).square(), moved).sum()

    @classmethod
    def _one(cls, size: int, dtype: torch.dtype, device: torch.device) -> Self:
        return cls(torch.arange(size, device=device), torch.ones(size, dtype=dtype, device=device))


def along(values: Tensor, ndim: int, dim: int, base: int | None) -> Tensor:
    """View `values` (f?, k) so that it broadcasts against a tensor with `ndim` axes: k along `dim`, f along `base`."""
    shape = [1] * ndim
    shape[dim] = values.shape[-1]
    if base is None:
        return values.reshape(shape)
    shape[base] = values.shape[0]
    return (values if base < dim else values.mT).reshape(shape)
