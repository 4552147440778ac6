"""A map as a map: its matrix, its action on one axis of a tensor, composition, inverse.

Vectors are columns, y = g x.  Public methods check shapes and families; the methods with an underscore are the
mathematics of a family.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import torch
from torch import Tensor

from onebasin.errors import Incompatible, LayoutMismatch, NotInFamily
from onebasin.families import Rep
from onebasin.maps.members import Members


class Map(Members):
    """An immutable member g: R^n -> R^m of a family; if it is fibred, one member per fibre."""

    def act(self, x: Tensor, dim: int, rep: Rep = Rep.VEC, base_dim: int | None = None) -> Tensor:
        """Apply the map to axis `dim` of `x`, differentiably.

        Fibre i of a fibred map acts on slice i of axis `base_dim`.  The result has the wider dtype of map and tensor.
        """
        if (base_dim is None) != (self.fibres is None):
            raise LayoutMismatch(
                "A fibred map needs the axis that its fibres are over, any other map has none.",
                expected="no base_dim" if self.fibres is None else f"base_dim, an axis of length {self.fibres}",
                found=f"base_dim={base_dim} for {self}",
            )
        dim = _axis(x, dim, self.source)
        base = None if base_dim is None or self.fibres is None else _axis(x, base_dim, self.fibres)
        if dim == base:
            raise LayoutMismatch("A map cannot act on the axis that its fibres are over.", axis=dim)
        dtype = torch.promote_types(x.dtype, self.dtype)
        return self.to(dtype)._act(x.to(dtype), dim, base, rep)

    @abstractmethod
    def _act(self, x: Tensor, dim: int, base: int | None, rep: Rep) -> Tensor: ...

    def compose(self, first: Map) -> Map:
        """The map `self` after `first`, a member of the larger of their two families."""
        if (self.source, self.fibres) != (first.target, first.fibres):
            raise Incompatible(
                "One map does not end where the next begins, or has other fibres.",
                expected=f"a map before {self}",
                found=first,
            )
        kind = type(self) if first.family <= self.family else type(first)
        dtype = torch.promote_types(self.dtype, first.dtype)
        return kind.lift(self.to(dtype))._after(kind.lift(first.to(dtype)))

    @abstractmethod
    def _after(self, first: Self) -> Self: ...

    @classmethod
    def lift(cls, smaller: Map) -> Self:
        """The same map as a member of this family, which must contain the family of `smaller`."""
        if not smaller.family <= cls.family:
            raise NotInFamily(
                f"A map of the family '{smaller.family}' is in general not in the family '{cls.family}'.",
                expected=cls.family.members,
                found=smaller,
                next_step="lift both maps to a family that contains them, as Invertible.lift(map), "
                f"or approximate: {cls.__name__}.project(map.dense())",
            )
        cls._require(smaller.source, smaller.target)
        return smaller if type(smaller) is cls else cls._from(smaller)

    @classmethod
    def _from(cls, smaller: Map) -> Self:
        return cls._nearest(smaller.dense(), 0.0)

    def inverse(self) -> Self:
        """The map h with h g = g h = 1."""
        raise NotInFamily(
            f"This map has no inverse in the family '{self.family}'.",
            expected="a member of a group, or a square isometry or semi-permutation",
            found=self,
            next_step="keep the map in its own direction, or project its matrix on a group first",
        )

    def distance(self) -> float:
        """Root-mean-square displacement from the identity, |g - I|_F / sqrt(f n)."""
        return float((self._displacement() / (self.source * (self.fibres or 1))).sqrt())

    @abstractmethod
    def _displacement(self) -> Tensor:
        """|g - I|_F^2, summed over the fibres."""


def no_permutation_part(map_: Map) -> NotInFamily:
    """The error for a space that is only permuted (a gate, a gain) but was given a map that mixes units."""
    return NotInFamily(
        f"A map of the family '{map_.family}' has no permutation part.",
        expected="a map that sends every unit to one unit",
        found=map_,
        next_step="use a family inside 'permutation with signed scaling' on a space that some axis only permutes",
    )


def _axis(x: Tensor, dim: int, size: int) -> int:
    if not -x.ndim <= dim < x.ndim or x.shape[dim] != size:
        raise LayoutMismatch("The map does not fit the tensor.", axis=dim, expected=size, found=tuple(x.shape))
    return dim % x.ndim
