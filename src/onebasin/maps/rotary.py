"""What rotary position embedding leaves free inside a head: one complex number per frequency pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from onebasin import families
from onebasin.families import Rep
from onebasin.maps.base import Map, no_permutation_part
from onebasin.maps.indexed import along
from onebasin.maps.members import Draw, least


@dataclass(frozen=True, eq=False, repr=False)
class Rotary(Map, family=families.ROTARY):
    """Multiply x_j + i x_{j+n/2} by z_j = a_j + i b_j, z_j != 0, in the half-split layout.

    As covector z becomes z / |z|^2.
    """

    real: Tensor  # a, (f?, n/2)
    imag: Tensor  # b, (f?, n/2)
    _rank: ClassVar[int] = 1
    step: ClassVar[int] = 2

    @property
    def _values(self) -> Tensor:
        return self.real

    @property
    def _size(self) -> tuple[int, int]:
        return 2 * self.real.shape[-1], 2 * self.real.shape[-1]

    def _parts(self, rep: Rep) -> tuple[Tensor, Tensor]:
        match rep:
            case Rep.VEC:
                return self.real, self.imag
            case Rep.COV:
                norm = self.real.square() + self.imag.square()
                return self.real / norm, self.imag / norm
            case Rep.PERM:
                raise no_permutation_part(self)

    def dense(self, rep: Rep = Rep.VEC) -> Tensor:
        """[[diag a, -diag b], [diag b, diag a]]."""
        a, b = map(torch.diag_embed, self._parts(rep))
        return torch.cat((torch.cat((a, -b), -1), torch.cat((b, a), -1)), -2)

    def _act(self, x: Tensor, dim: int, base: int | None, rep: Rep) -> Tensor:
        a, b = (along(part, x.ndim, dim, base) for part in self._parts(rep))
        re, im = x.chunk(2, dim)
        return torch.cat((a * re - b * im, b * re + a * im), dim)

    def _after(self, first: Self) -> Self:
        a, b, c, d = self.real, self.imag, first.real, first.imag
        return type(self)(a * c - b * d, b * c + a * d)

    def inverse(self) -> Self:
        """1 / z, the conjugate of the covector."""
        a, b = self._parts(Rep.COV)
        return type(self)(a, -b)

    def _displacement(self) -> Tensor:
        return 2 * ((self.real - 1).square() + self.imag.square()).sum()

    @classmethod
    def _one(cls, size: int, dtype: torch.dtype, device: torch.device) -> Self:
        one = torch.ones(size // 2, dtype=dtype, device=device)
        return cls(one, torch.zeros_like(one))

    @classmethod
    def _draw(cls, source: int, target: int, draw: Draw) -> Self:
        modulus, angle = cls._admitted(draw.scales(source // 2), 0.0), 2 * torch.pi * draw.uniform(source // 2)
        return cls(modulus * angle.cos(), modulus * angle.sin())

    @classmethod
    def _nearest(cls, matrix: Tensor, floor: float, near: Tensor | None = None) -> Self:
        """Average each pair's 2 x 2 block over the two places of a and of b, then make |z| admitted."""
        blocks = pair_blocks(matrix)
        a = (blocks[..., 0, 0, :] + blocks[..., 1, 1, :]) / 2
        b = (blocks[..., 1, 0, :] - blocks[..., 0, 1, :]) / 2
        found = torch.hypot(a, b)
        wanted = cls._admitted(found, floor)
        return cls(torch.where(found > 0, a / found, 1) * wanted, torch.where(found > 0, b / found, 0) * wanted)

    @classmethod
    def _admitted(cls, modulus: Tensor, floor: float) -> Tensor:
        return torch.maximum(modulus, least(modulus, floor))


def pair_blocks(matrix: Tensor) -> Tensor:
    """The 2 x 2 block of every frequency pair (j, j + n/2) of (f?, n, n), as (f?, 2, 2, n/2)."""
    n = matrix.shape[-1] // 2
    blocks: Tensor = matrix.unflatten(-2, (2, n)).unflatten(-1, (2, n)).diagonal(dim1=-3, dim2=-1)
    return blocks


class PairRotation(Rotary, family=families.PAIR_ROTATION):
    """One angle per frequency pair: |z_j| = 1."""

    @classmethod
    def _admitted(cls, modulus: Tensor, floor: float) -> Tensor:
        return torch.ones_like(modulus)
