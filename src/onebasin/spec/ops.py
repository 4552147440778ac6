"""Operations, and the largest family of symmetries that each admits.

An operation that touches a space cuts the space's group down to the maps it commutes with.  The table below is the
whole of what onebasin believes about operations; `tests/archs/test_exact.py` checks it against the real models, with
members of each family (which must not move the output) and non-members (which must).
"""

from __future__ import annotations

from dataclasses import dataclass

from onebasin import families as fam
from onebasin.families import Family


@dataclass(frozen=True)
class Op:
    """Something the model computes on a space, the family it admits, and the reason in words."""

    name: str
    admits: Family
    why: str


def layer_norm(gain: bool) -> Op:
    if gain:
        return Op(
            "LayerNorm with gain",
            fam.PERMUTATION_SIGN,
            "unequal gains label the coordinates; the mean ties their signs together",
        )
    return Op("LayerNorm", fam.ORTHOGONAL_ONES, "keeps length and the mean direction")


def rms_norm(gain: bool) -> Op:
    if gain:
        return Op("RMSNorm with gain", fam.SIGNED_PERMUTATION, "unequal gains label the coordinates")
    return Op("RMSNorm", fam.ORTHOGONAL, "keeps length")


def layer_scale() -> Op:
    return Op("layer scale", fam.MONOMIAL, "unequal scales label the coordinates")


_ADMITTED = {  # by activations that commute with more than reordering
    "linear": (fam.INVERTIBLE, "no non-linearity"),
    "relu": (fam.SCALED_PERMUTATION, "acts unit by unit, positively homogeneous"),  # φ(s·t) = s·φ(t) for s > 0
    "leaky_relu": (fam.SCALED_PERMUTATION, "acts unit by unit, positively homogeneous"),
    "tanh": (fam.SIGNED_PERMUTATION, "acts unit by unit, odd"),  # φ(−t) = −φ(t)
    "clip": (fam.SIGNED_PERMUTATION, "acts unit by unit, odd"),
}


def elementwise(activation: str) -> Op:
    """y = φ(x), unit by unit: any φ commutes with reordering, some with more."""
    return Op(activation, *_ADMITTED.get(activation, (fam.PERMUTATION, "acts unit by unit")))


def gated(activation: str) -> Op:
    """y = φ(gate) ⊙ up: the up branch is linear in each unit, so it may be scaled with any sign."""
    return Op(f"gated {activation}", fam.MONOMIAL, "unit by unit; linear in the up branch")


def head_sum() -> Op:
    return Op("sum over heads", fam.PERMUTATION, "every head is treated alike")


def expert_sum() -> Op:
    return Op("sum over experts", fam.PERMUTATION, "the router's row moves along with its expert")


def head_slopes() -> Op:
    """Scores get a bias that grows with the distance, in every head at its own rate (ALiBi)."""
    return Op("a slope for every head", fam.TRIVIAL, "slopes follow from the place of the head")


def bilinear() -> Op:
    return Op("softmax of query · key", fam.INVERTIBLE, "only the product of queries and keys is seen")


def soft_cap() -> Op:
    """Scores pass through c·tanh(x/c) before the softmax: a number added to all of them is seen."""
    return Op("soft cap of query · key", fam.INVERTIBLE, "only the product of queries and keys is seen")


def rope(geometric: bool = True) -> Op:
    """Pair j of d/2 turns by a multiple of θ^(−2j/d), or of a function of that (`geometric`); or by anything else."""
    name = "rotary positions" if geometric else "rotary positions, frequencies of their own"
    return Op(name, fam.ROTARY, "the map must commute with every rotation of its pair")


def qk_norm() -> Op:
    return Op("query/key RMSNorm", fam.SIGNS, "unequal gains, shared by all heads, label the coordinates")


def joint_qk_norm() -> Op:
    """One norm over all heads together; the gains of a head move with it."""
    return Op("query/key RMSNorm over all heads", fam.SIGNS, "unequal gains label the coordinates of a head")


def gain_product() -> Op:
    return Op("query gain · key gain", fam.SIGNED_SCALING, "only the product of the two gains is seen")


def angle() -> Op:
    return Op("angle between answers", fam.ORTHOGONAL, "keeps lengths and angles")


def returned() -> Op:
    return Op("returned as it is", fam.INVERTIBLE, "the model's answer is a vector of the space, its mean included")


def tied() -> Op:
    return Op("tied input and output embedding", fam.ORTHOGONAL, "one tensor is vector and covector at once")
