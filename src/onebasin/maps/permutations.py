"""Groups that reorder units, with or without signs and scales: D P, P a permutation and D diagonal."""

from __future__ import annotations

from typing import ClassVar, Self

import torch
from torch import Tensor

from onebasin import families
from onebasin.families import Family
from onebasin.linalg import assign
from onebasin.maps.monomial import MonomialGroup, matched


class Monomial(MonomialGroup):
    """D P with non-zero scales D."""

    family: ClassVar[Family] = families.MONOMIAL
    permutes = signed = scaled = True


class ScaledPermutation(MonomialGroup):
    """D P with positive scales D: the hidden units of a ReLU layer."""

    family: ClassVar[Family] = families.SCALED_PERMUTATION
    permutes = scaled = True


class SignedPermutation(MonomialGroup):
    """D P with signs D: a stream normalised by RMSNorm with gains that cannot be folded."""

    family: ClassVar[Family] = families.SIGNED_PERMUTATION
    permutes = signed = True


class Permutation(MonomialGroup):
    """P: hidden units of any other activation, heads."""

    family: ClassVar[Family] = families.PERMUTATION
    permutes = True


class PermutationSign(MonomialGroup):
    """P or -P: a stream normalised by LayerNorm with gains that cannot be folded."""

    family: ClassVar[Family] = families.PERMUTATION_SIGN
    permutes = signed = True

    @classmethod
    def free(cls, n: int) -> int:
        """One scale for all."""
        return 1

    @classmethod
    def _nearest(cls, matrix: Tensor, floor: float) -> Self:
        """P or -P, whichever of the nearest two is nearer: the sign is shared, so p has to be solved for each."""
        plus, minus = assign(matrix), assign(-matrix)
        keep = (matched(matrix, plus) + matched(matrix, minus)).sum(-1, keepdim=True) >= 0
        scale = torch.where(keep, 1.0, -1.0).to(matrix.dtype)
        return cls(torch.where(keep, plus, minus), scale.tile(matrix.shape[-1]))
