"""Groups of diagonal matrices."""

from __future__ import annotations

from typing import ClassVar

from onebasin import families
from onebasin.families import Family
from onebasin.maps.monomial import MonomialGroup


class SignedScaling(MonomialGroup):
    """D with non-zero scales."""

    family: ClassVar[Family] = families.SIGNED_SCALING
    signed = scaled = True


class PositiveScaling(MonomialGroup):
    """D with positive scales."""

    family: ClassVar[Family] = families.POSITIVE_SCALING
    scaled = True


class Signs(MonomialGroup):
    """D with signs."""

    family: ClassVar[Family] = families.SIGNS
    signed = True


class PairScaling(MonomialGroup):
    """D with one non-zero scale for j and j + n/2, the two coordinates of a frequency pair."""

    family: ClassVar[Family] = families.PAIR_SCALING
    signed = scaled = True

    @classmethod
    def admits(cls, source: int, target: int) -> bool:
        """Pairs need an even size."""
        return source == target and source % 2 == 0

    @classmethod
    def free(cls, n: int) -> int:
        """One scale for each pair."""
        return n // 2


class PairSigns(PairScaling):
    """D with one sign for j and j + n/2, the two coordinates of a frequency pair."""

    family: ClassVar[Family] = families.PAIR_SIGNS
    scaled = False


class GlobalSign(MonomialGroup):
    """1 or -1."""

    family: ClassVar[Family] = families.GLOBAL_SIGN
    signed = True

    @classmethod
    def free(cls, n: int) -> int:
        """One scale for all."""
        return 1


class Trivial(MonomialGroup):
    """The identity only."""

    family: ClassVar[Family] = families.TRIVIAL
