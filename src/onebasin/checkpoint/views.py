"""Between stored tensors and leaves: the only place that reads and writes one through its view."""

from __future__ import annotations

import torch
from einops import rearrange
from torch import Tensor

from onebasin.spec import Leaf


def read_leaf(stored: Tensor, leaf: Leaf) -> Tensor:
    """The numbers of a leaf, in float64, from the tensor that holds it."""
    return shown(stored, leaf).to(torch.float64) + leaf.plus


def shown(stored: Tensor, leaf: Leaf) -> Tensor:
    """Where a leaf is, of any tensor that is laid out like the one that holds it."""
    return _window(stored, leaf)[leaf.index]


def write_leaf(stored: Tensor, leaf: Leaf, value: Tensor) -> None:
    """Put the numbers of a leaf where `read_leaf` finds them."""
    _window(stored, leaf)[leaf.index] = value - leaf.plus


def _window(stored: Tensor, leaf: Leaf) -> Tensor:
    """The tensor as the leaf's view shows it: splits and reorders axes, and shares memory."""
    return rearrange(stored[leaf.view.rows], leaf.view.pattern, **dict(leaf.view.sizes))
