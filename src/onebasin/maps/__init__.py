"""The maps themselves: one class per family of `onebasin.families`."""

from onebasin.errors import NotInFamily
from onebasin.families import Family
from onebasin.maps.base import Map
from onebasin.maps.dense import DoublyStochastic, Invertible, Isometry, Orthogonal, OrthogonalOnes
from onebasin.maps.monomial import (
    GlobalSign,
    Monomial,
    PairScaling,
    PairSigns,
    Permutation,
    PermutationSign,
    PositiveScaling,
    ScaledPermutation,
    SignedPermutation,
    SignedScaling,
    Signs,
    Trivial,
)
from onebasin.maps.rotary import PairRotation, Rotary
from onebasin.maps.semi_permutation import SemiPermutation

__all__ = [
    "MAPS",
    "DoublyStochastic",
    "GlobalSign",
    "Invertible",
    "Isometry",
    "Map",
    "Monomial",
    "Orthogonal",
    "OrthogonalOnes",
    "PairRotation",
    "PairScaling",
    "PairSigns",
    "Permutation",
    "PermutationSign",
    "PositiveScaling",
    "Rotary",
    "ScaledPermutation",
    "SemiPermutation",
    "SignedPermutation",
    "SignedScaling",
    "Signs",
    "Trivial",
    "map_of",
]

MAPS: dict[Family, type[Map]] = {
    kind.family: kind
    for kind in (
        Invertible, Orthogonal, OrthogonalOnes, Monomial, ScaledPermutation, SignedPermutation, PermutationSign,
        Permutation, SignedScaling, PositiveScaling, Signs, Rotary, PairRotation, PairScaling, PairSigns, GlobalSign,
        Trivial, Isometry, SemiPermutation, DoublyStochastic,
    )
}  # fmt: skip


def map_of(family: Family) -> type[Map]:
    """The class of the maps of `family`."""
    if family not in MAPS:
        raise NotInFamily("No maps are known for this family.", expected=[str(known) for known in MAPS], found=family)
    return MAPS[family]
