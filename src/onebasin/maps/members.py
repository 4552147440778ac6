"""A family as a set: which sizes it has, its identity, random members, the nearest member, membership."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from onebasin.errors import NotInFamily
from onebasin.families import Family, Rep
from onebasin.maps.stored import Stored

FLOOR = 1e-6  # families without zero scales are closed off here: no singular value below FLOOR times the largest


@dataclass(frozen=True)
class Draw:
    """A source of random tensors (f?, *shape), one independent draw per fibre."""

    generator: torch.Generator
    fibres: int | None
    condition: float
    dtype: torch.dtype

    def _shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape if self.fibres is None else (self.fibres, *shape)

    def uniform(self, *shape: int) -> Tensor:
        """On [0, 1)."""
        return torch.rand(self._shape(shape), generator=self.generator, dtype=self.dtype, device=self.generator.device)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal."""
        return torch.randn(self._shape(shape), generator=self.generator, dtype=self.dtype, device=self.generator.device)

    def ones(self, *shape: int) -> Tensor:
        """Not random, for scales that are fixed."""
        return torch.ones(self._shape(shape), dtype=self.dtype, device=self.generator.device)

    def signs(self, *shape: int) -> Tensor:
        """+1 or -1."""
        return 1 - 2 * (self.uniform(*shape) < 0.5).to(self.dtype)

    def scales(self, *shape: int) -> Tensor:
        """Log-uniform on [condition^-1/2, condition^1/2]."""
        return self.condition ** (self.uniform(*shape) - 0.5)

    def permutation(self, n: int) -> Tensor:
        """A uniform permutation of n units, as index."""
        return self.uniform(n).argsort(-1)

    def isometry(self, m: int, n: int) -> Tensor:
        """(f?, m, n) with orthonormal columns, uniform (Haar): Q of a Gaussian QR with the signs of R's diagonal."""
        q, r = torch.linalg.qr(self.normal(m, n))
        uniform: Tensor = q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
        return uniform


class Members(Stored):
    """Public methods check sizes; a family supplies the mathematics in `_one`, `_draw` and `_nearest`."""

    family: ClassVar[Family]
    widens: ClassVar[bool] = False  # whether it has maps from small to large beside the square ones
    step: ClassVar[int] = 1  # sizes are multiples of this

    def __init_subclass__(cls, *, family: Family | None = None) -> None:
        super().__init_subclass__()
        if family is not None:
            cls.family = family

    @abstractmethod
    def dense(self, rep: Rep = Rep.VEC) -> Tensor:
        """The matrix (f?, m, n): g for VEC, g^-T for COV, the permutation part for PERM."""

    @classmethod
    def admits(cls, source: int, target: int) -> bool:
        """Whether the family has maps R^source -> R^target: as a rule the square ones."""
        return source % cls.step == 0 and (source == target or (cls.widens and source < target))

    @classmethod
    def _require(cls, source: int, target: int) -> None:
        if not cls.admits(source, target):
            raise NotInFamily(
                f"The family '{cls.family}' has no maps of this size.",
                expected=cls.family.members,
                found=f"{source} -> {target}",
            )

    @classmethod
    def identity(
        cls,
        size: int,
        fibres: int | None = None,
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> Self:
        """The identity of R^size, once or once per fibre."""
        cls._require(size, size)
        one = cls._one(size, dtype, torch.device(device or "cpu"))
        return one if fibres is None else one._each(lambda t: t.expand(fibres, *t.shape).clone())

    @classmethod
    @abstractmethod
    def _one(cls, size: int, dtype: torch.dtype, device: torch.device) -> Self: ...

    @classmethod
    def sample(
        cls,
        size: int,
        *,
        generator: torch.Generator,
        fibres: int | None = None,
        target: int | None = None,
        condition: float = 4.0,
        dtype: torch.dtype = torch.float64,
    ) -> Self:
        """A generic member R^size -> R^target, far from the identity, on the generator's device.

        Singular values lie in [condition^-1/2, condition^1/2] where the family leaves them free; both determinants and
        all signs are drawn where it leaves these free.
        """
        target = size if target is None else target
        cls._require(size, target)
        return cls._draw(size, target, Draw(generator, fibres, condition, dtype))

    @classmethod
    @abstractmethod
    def _draw(cls, source: int, target: int, draw: Draw) -> Self: ...

    @classmethod
    def project(cls, matrix: Tensor, floor: float = FLOOR, near: Tensor | None = None) -> Self:
        """The member nearest to `matrix` (f?, m, n) in the Frobenius norm, fibre by fibre.

        Families that exclude zero scales have no nearest member to some matrices; there, singular values are kept
        above `floor` times the largest.  A matrix that lacks rank has many nearest isometries; of these it is the one
        nearest to `near` (f?, m, n), which other families have no need of.
        """
        target, source = matrix.shape[-2:]
        cls._require(source, target)
        return cls._nearest(matrix, floor, near)

    @classmethod
    @abstractmethod
    def _nearest(cls, matrix: Tensor, floor: float, near: Tensor | None = None) -> Self: ...

    @classmethod
    def contains(cls, matrix: Tensor, tol: float = 1e-9) -> bool:
        """Whether every fibre of `matrix` (f?, m, n) is a member up to rounding.

        That is, whether projecting it moves it by less than `tol` times its root-mean-square singular value.  Closing
        the family off at twice the tolerance puts singular matrices outside.
        """
        target, source = matrix.shape[-2:]
        if not cls.admits(source, target) or not matrix.isfinite().all():
            return False
        moved = torch.linalg.matrix_norm(cls._nearest(matrix, 2 * tol).dense() - matrix)
        return bool((moved < tol * torch.linalg.matrix_norm(matrix) / source**0.5).all())


def least(sizes: Tensor, floor: float) -> Tensor:
    """The least scale admitted beside `sizes` (f?, k): `floor` times the largest, (f?, 1); `floor` if all vanish."""
    largest = sizes.amax(-1, keepdim=True)
    return floor * torch.where(largest > 0, largest, 1)
