"""Maps stored as matrices: the arithmetic, invertible maps, isometries, and the relaxation of permutations."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import ClassVar, Self

import torch
from torch import Tensor

from onebasin import families
from onebasin.families import Rep
from onebasin.linalg import nearest_doubly_stochastic, ones_complement, polar, polar_fixing_ones, sinkhorn
from onebasin.maps.base import Map, no_permutation_part
from onebasin.maps.members import Draw, least

SOLVING = Lock()  # torch loads its solvers for a GPU at the first call, and fails if two threads make that at once


@dataclass(frozen=True, eq=False, repr=False)
class Dense(Map):
    """The arithmetic shared by all maps without structure that could make it cheaper."""

    matrix: Tensor  # (f?, m, n)
    _rank: ClassVar[int] = 2

    @property
    def _values(self) -> Tensor:
        return self.matrix

    @property
    def _size(self) -> tuple[int, int]:
        return self.matrix.shape[-1], self.matrix.shape[-2]

    def _act(self, x: Tensor, dim: int, base: int | None, rep: Rep) -> Tensor:
        """sum_n g[f?, m, n] x[..., f?, ..., n, ...], with axis m in the place of n."""
        axes, new = list(range(x.ndim)), x.ndim
        of_map = [new, dim] if base is None else [base, new, dim]
        return torch.einsum(self.dense(rep), of_map, x, axes, [new if axis == dim else axis for axis in axes])

    def _after(self, first: Self) -> Self:
        return type(self)(self.matrix @ first.matrix)

    @classmethod
    def _from(cls, smaller: Map) -> Self:
        return cls(smaller.dense())

    def _displacement(self) -> Tensor:
        eye = torch.eye(self.target, self.source, dtype=self.dtype, device=self.device)
        return (self.matrix - eye).square().sum()

    @classmethod
    def _one(cls, size: int, dtype: torch.dtype, device: torch.device) -> Self:
        return cls(torch.eye(size, dtype=dtype, device=device))


class Invertible(Dense, family=families.INVERTIBLE):
    """Every invertible matrix."""

    def dense(self, rep: Rep = Rep.VEC) -> Tensor:
        """g as vector, g^-T as covector."""
        if rep is Rep.PERM:
            raise no_permutation_part(self)
        return self.matrix if rep is Rep.VEC else self.inverse().matrix.mT

    def inverse(self) -> Self:
        """The inverse matrix."""
        with SOLVING:
            return type(self)(torch.linalg.inv(self.matrix))

    @classmethod
    def _draw(cls, source: int, target: int, draw: Draw) -> Self:
        """U S W^T with U, W uniform and log S evenly spaced: the condition number is exactly `condition`."""
        left, right = draw.isometry(source, source), draw.isometry(source, source)
        spread = draw.condition ** torch.linspace(-0.5, 0.5, source, dtype=draw.dtype, device=left.device)
        return cls(left * spread @ right)

    @classmethod
    def _nearest(cls, matrix: Tensor, floor: float, near: Tensor | None = None) -> Self:
        left, sizes, right = torch.linalg.svd(matrix)
        raised = torch.maximum(sizes, least(sizes, floor))
        singular = (raised > sizes).any(-1)[..., None, None]
        return cls(torch.where(singular, left * raised.unsqueeze(-2) @ right, matrix))


class Isometry(Dense, family=families.ISOMETRY):
    """U (m, n), m >= n, with orthonormal columns, so that vector and covector transform alike: U^T U = I."""

    widens = True

    def dense(self, rep: Rep = Rep.VEC) -> Tensor:
        """U, both as vector and as covector."""
        if rep is Rep.PERM:
            raise no_permutation_part(self)
        return self.matrix

    def inverse(self) -> Self:
        """U^T, of a square one."""
        return type(self)(self.matrix.mT) if self.source == self.target else Map.inverse(self)

    @classmethod
    def _draw(cls, source: int, target: int, draw: Draw) -> Self:
        return cls(draw.isometry(target, source))

    @classmethod
    def _nearest(cls, matrix: Tensor, floor: float, near: Tensor | None = None) -> Self:
        return cls(polar(matrix, near))


class Orthogonal(Isometry, family=families.ORTHOGONAL):
    """Rotations and reflections, what RMSNorm admits."""

    widens = False


class OrthogonalOnes(Orthogonal, family=families.ORTHOGONAL_ONES):
    """Orthogonal Q with Q1 = 1 or Q1 = -1, what LayerNorm admits: V R V^T + s 1 1^T / n on the complement V of ones."""

    @classmethod
    def _draw(cls, source: int, target: int, draw: Draw) -> Self:
        basis = ones_complement(source, dtype=draw.dtype, device=draw.generator.device)
        rotation = basis @ draw.isometry(source - 1, source - 1) @ basis.mT
        return cls(rotation + draw.signs(1, 1) / source)

    @classmethod
    def _nearest(cls, matrix: Tensor, floor: float, near: Tensor | None = None) -> Self:
        return cls(polar_fixing_ones(matrix, near))


class DoublyStochastic(Dense, family=families.DOUBLY_STOCHASTIC):
    """P >= 0 with rows and columns that sum to one: the convex hull of the permutations.

    A relaxation used while learning, not a symmetry: vector, covector and permutation part are all P, which agrees with
    a permutation exactly where P is one.
    """

    def dense(self, rep: Rep = Rep.VEC) -> Tensor:
        """P, whatever the representation."""
        return self.matrix

    @classmethod
    def _draw(cls, source: int, target: int, draw: Draw) -> Self:
        return cls(sinkhorn(draw.normal(source, source), iterations=100))

    @classmethod
    def _nearest(cls, matrix: Tensor, floor: float, near: Tensor | None = None) -> Self:
        return cls(nearest_doubly_stochastic(matrix))
