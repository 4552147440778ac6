"""Spaces, leaves, operations and the table they form.  Free of torch."""

from onebasin.spec.builder import Builder, Head
from onebasin.spec.leaves import Axis, Leaf, Space, View
from onebasin.spec.model import ModelSpec
from onebasin.spec.ops import Op
from onebasin.spec.pieces import Piece
from onebasin.spec.relations import Attention, Images, Linear, Mirror, Norm, Scale, Tokens

__all__ = [
    "Attention", "Axis", "Builder", "Head", "Images", "Leaf", "Linear", "Mirror", "ModelSpec", "Norm", "Op", "Piece",
    "Scale", "Space", "Tokens", "View",
]  # fmt: skip
