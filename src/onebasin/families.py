"""The families of symmetries, their order, and the meet.

A family is a set of linear maps on R^n.  What a space admits is derived, never declared: every operation that touches
the space admits a largest family, and the space admits their meet.  The order below is the Hasse diagram of inclusion;
the meet of two families is the largest listed family inside both.  Nothing here needs torch, so that a checkpoint can
be inspected from its headers alone; `onebasin.maps` holds the maps themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cache, reduce


class Rep(Enum):
    """How a tensor axis transforms when its space is mapped by g."""

    VEC = "vector"  # g
    COV = "covector"  # g^-T
    PERM = "permutation part"  # g with every scale and sign set to one


@dataclass(frozen=True, eq=False, repr=False)
class Family:
    """A named set of maps R^n -> R^m; `dimension` is its real dimension (for groups m = n).  There is one of each."""

    name: str
    members: str
    dimension: Callable[[int, int], int]
    inside: tuple[Family, ...] = ()
    group: bool = True

    def __le__(self, other: Family) -> bool:
        return self == other or any(parent <= other for parent in self.inside)

    def __ge__(self, other: Family) -> bool:
        return other <= self

    def __repr__(self) -> str:
        return self.name


def _half(n: int) -> int:
    return n * (n - 1) // 2


def _finite(n: int, m: int) -> int:
    return 0


INVERTIBLE = Family("invertible", "every invertible matrix", lambda n, m: n * n)
ORTHOGONAL = Family("orthogonal", "rotations and reflections", lambda n, m: _half(n), (INVERTIBLE,))
ORTHOGONAL_ONES = Family(
    "orthogonal fixing ones", "orthogonal Q with Q1 = 1 or Q1 = -1", lambda n, m: _half(n - 1), (ORTHOGONAL,)
)
MONOMIAL = Family(
    "permutation with signed scaling", "one non-zero entry per row and column", lambda n, m: n, (INVERTIBLE,)
)
SCALED_PERMUTATION = Family(
    "permutation with positive scaling", "one positive entry per row and column", lambda n, m: n, (MONOMIAL,)
)
SIGNED_PERMUTATION = Family(
    "signed permutation", "one entry +1 or -1 per row and column", _finite, (ORTHOGONAL, MONOMIAL)
)
PERMUTATION_SIGN = Family("permutation with global sign", "P or -P", _finite, (ORTHOGONAL_ONES, SIGNED_PERMUTATION))
PERMUTATION = Family("permutation", "reordered units", _finite, (PERMUTATION_SIGN, SCALED_PERMUTATION))
SIGNED_SCALING = Family("signed scaling", "non-zero diagonal", lambda n, m: n, (MONOMIAL,))
POSITIVE_SCALING = Family("positive scaling", "positive diagonal", lambda n, m: n, (SCALED_PERMUTATION, SIGNED_SCALING))
SIGNS = Family("signs", "diagonal of +1 and -1", _finite, (SIGNED_PERMUTATION, SIGNED_SCALING))
ROTARY = Family("rotary", "one non-zero complex number per frequency pair", lambda n, m: n, (INVERTIBLE,))
PAIR_ROTATION = Family("pair rotation", "one angle per frequency pair", lambda n, m: n // 2, (ROTARY, ORTHOGONAL))
PAIR_SCALING = Family(
    "pair scaling", "one non-zero real number per frequency pair", lambda n, m: n // 2, (ROTARY, SIGNED_SCALING)
)
PAIR_SIGNS = Family("pair signs", "one sign per frequency pair", _finite, (PAIR_SCALING, PAIR_ROTATION, SIGNS))
GLOBAL_SIGN = Family("global sign", "+1 or -1", _finite, (PERMUTATION_SIGN, PAIR_SIGNS))
TRIVIAL = Family("trivial", "the identity only", _finite, (GLOBAL_SIGN, PERMUTATION, POSITIVE_SCALING))

GROUPS = (
    INVERTIBLE, ORTHOGONAL, ORTHOGONAL_ONES, MONOMIAL, SCALED_PERMUTATION, SIGNED_PERMUTATION, PERMUTATION_SIGN,
    PERMUTATION, SIGNED_SCALING, POSITIVE_SCALING, SIGNS, ROTARY, PAIR_ROTATION, PAIR_SCALING, PAIR_SIGNS,
    GLOBAL_SIGN, TRIVIAL,
)  # fmt: skip

# Maps that compose but need not invert: unequal sizes, and the relaxation of a permutation.
ISOMETRY = Family("isometry", "orthonormal columns, n -> m >= n", lambda n, m: n * m - n * (n + 1) // 2, group=False)
SEMI_PERMUTATION = Family(
    "semi-permutation", "units split into convex shares, n -> m >= n", lambda n, m: m - n, group=False
)
DOUBLY_STOCHASTIC = Family(
    "doubly stochastic", "non-negative, rows and columns sum to one", lambda n, m: (n - 1) ** 2, group=False
)

FAMILIES = {family.name: family for family in (*GROUPS, ISOMETRY, SEMI_PERMUTATION, DOUBLY_STOCHASTIC)}


@cache
def _meet(f: Family, g: Family) -> Family:
    below = [h for h in GROUPS if h <= f and h <= g]
    (largest,) = [h for h in below if all(other <= h for other in below)]
    return largest


def meet(families: Iterable[Family]) -> Family:
    """The largest listed family inside all of `families`; no constraint at all is `INVERTIBLE`."""
    return reduce(_meet, families, INVERTIBLE)
