"""Isometries: U^T U = I, so that vector and covector transform alike."""

from __future__ import annotations

from typing import ClassVar, Self

from torch import Tensor

from onebasin import families
from onebasin.families import Family, Rep
from onebasin.linalg import ones_complement, polar, polar_fixing_ones
from onebasin.maps.base import Map, no_permutation_part
from onebasin.maps.dense import Dense
from onebasin.maps.draw import Draw


class Isometry(Dense):
    """U (m, n), m >= n, with orthonormal columns: y = U x keeps every inner product."""

    family: ClassVar[Family] = families.ISOMETRY

    def dense(self, rep: Rep = Rep.VEC) -> Tensor:
        """U, both as vector and as covector."""
        if rep is Rep.PERM:
            raise no_permutation_part(self)
        return self.matrix

    def inverse(self) -> Self:
        """U^T, of a square one."""
        return type(self)(self.matrix.mT) if self.source == self.target else Map.inverse(self)

    @classmethod
    def admits(cls, source: int, target: int) -> bool:
        """From small to large."""
        return source <= target

    @classmethod
    def _draw(cls, source: int, target: int, draw: Draw) -> Self:
        return cls(draw.isometry(target, source))

    @classmethod
    def _nearest(cls, matrix: Tensor, floor: float) -> Self:
        return cls(polar(matrix))

    @classmethod
    def _nearest_to(cls, near: Tensor, matrix: Tensor, floor: float) -> Self:
        return cls(polar(matrix, near))


class Orthogonal(Isometry):
    """Rotations and reflections, what RMSNorm admits."""

    family: ClassVar[Family] = families.ORTHOGONAL

    @classmethod
    def admits(cls, source: int, target: int) -> bool:
        """Square."""
        return source == target


class OrthogonalOnes(Orthogonal):
    """Orthogonal Q with Q1 = 1 or Q1 = -1, what LayerNorm admits: V R V^T + s 1 1^T / n on the complement V of ones."""

    family: ClassVar[Family] = families.ORTHOGONAL_ONES

    @classmethod
    def _draw(cls, source: int, target: int, draw: Draw) -> Self:
        basis = ones_complement(source, dtype=draw.dtype, device=draw.generator.device)
        rotation = basis @ draw.isometry(source - 1, source - 1) @ basis.mT
        return cls(rotation + draw.signs(1, 1) / source)

    @classmethod
    def _nearest(cls, matrix: Tensor, floor: float) -> Self:
        return cls(polar_fixing_ones(matrix))

    @classmethod
    def _nearest_to(cls, near: Tensor, matrix: Tensor, floor: float) -> Self:
        return cls(polar_fixing_ones(matrix, near))
