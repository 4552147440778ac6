"""Groups of matrices with one non-zero entry per row and column: D P, P a permutation and D diagonal, or D alone.

Such a group is told by four things: whether units may change places (`permutes`), whether their scales may be negative
(`signed`) or differ from one in size (`scaled`), and how many scales may be chosen freely (`free`).
"""

from __future__ import annotations

from typing import ClassVar, Self

import torch
from torch import Tensor

from onebasin import families
from onebasin.families import Family
from onebasin.linalg import assign
from onebasin.maps.indexed import Indexed
from onebasin.maps.members import Draw, least


class MonomialGroup(Indexed):
    """Matrices D P, P a permutation and D a diagonal of scales, each restricted as the family says."""

    permutes: ClassVar[bool]
    signed: ClassVar[bool]
    scaled: ClassVar[bool]

    def __init_subclass__(
        cls, *, permutes: bool = False, signed: bool = False, scaled: bool = False, **family: Family
    ) -> None:
        super().__init_subclass__(**family)
        cls.permutes, cls.signed, cls.scaled = permutes, signed, scaled

    @classmethod
    def free(cls, n: int) -> int:
        """How many scales are free, k; the scale of unit i is the free scale i mod k."""
        return n // cls.step

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
    def _nearest(cls, matrix: Tensor, floor: float, near: Tensor | None = None) -> Self:
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


class Monomial(MonomialGroup, family=families.MONOMIAL, permutes=True, signed=True, scaled=True):
    """D P with non-zero scales D."""


class ScaledPermutation(MonomialGroup, family=families.SCALED_PERMUTATION, permutes=True, scaled=True):
    """D P with positive scales D: the hidden units of a ReLU layer."""


class SignedPermutation(MonomialGroup, family=families.SIGNED_PERMUTATION, permutes=True, signed=True):
    """D P with signs D: a stream normalised by RMSNorm with gains that cannot be folded."""


class Permutation(MonomialGroup, family=families.PERMUTATION, permutes=True):
    """P: hidden units of any other activation, heads."""


class SignedScaling(MonomialGroup, family=families.SIGNED_SCALING, signed=True, scaled=True):
    """D with non-zero scales."""


class PositiveScaling(MonomialGroup, family=families.POSITIVE_SCALING, scaled=True):
    """D with positive scales."""


class Signs(MonomialGroup, family=families.SIGNS, signed=True):
    """D with signs."""


class PairScaling(MonomialGroup, family=families.PAIR_SCALING, signed=True, scaled=True):
    """D with one non-zero scale for j and j + n/2, the two coordinates of a frequency pair."""

    step = 2


class PairSigns(PairScaling, family=families.PAIR_SIGNS, signed=True):
    """D with one sign for j and j + n/2, the two coordinates of a frequency pair."""


class GlobalSign(MonomialGroup, family=families.GLOBAL_SIGN, signed=True):
    """1 or -1."""

    @classmethod
    def free(cls, n: int) -> int:
        """One scale for all."""
        return 1


class PermutationSign(MonomialGroup, family=families.PERMUTATION_SIGN, permutes=True, signed=True):
    """P or -P: a stream normalised by LayerNorm with gains that cannot be folded."""

    @classmethod
    def free(cls, n: int) -> int:
        """One scale for all."""
        return 1

    @classmethod
    def _nearest(cls, matrix: Tensor, floor: float, near: Tensor | None = None) -> Self:
        """P or -P, whichever of the nearest two is nearer: the sign is shared, so p has to be solved for each."""
        plus, minus = assign(matrix), assign(-matrix)
        keep = (matched(matrix, plus) + matched(matrix, minus)).sum(-1, keepdim=True) >= 0
        scale = torch.where(keep, 1.0, -1.0).to(matrix.dtype)
        return cls(torch.where(keep, plus, minus), scale.tile(matrix.shape[-1]))


class Trivial(MonomialGroup, family=families.TRIVIAL):
    """The identity only."""
