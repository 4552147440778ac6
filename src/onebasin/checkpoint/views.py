"""Between stored tensors and leaves: the only place that reads and writes one through its view."""

from __future__ import annotations

import torch
from einops import rearrange
from torch import Tensor

from onebasin.spec import Leaf


def read_leaf(stored: Tensor, leaf: Leaf) -> Tensor:
    """The numbers of a leaf, in float64, from the tensor that holds it."""
    numbers = select(stored, leaf).to(torch.float64, copy=True)
    return numbers + leaf.plus if leaf.plus else numbers


def select(stored: Tensor, leaf: Leaf) -> Tensor:
    """Where a leaf is, of any tensor that is laid out like the one that holds it."""
    return _window(stored, leaf)[leaf.index]


def write_leaf(stored: Tensor, leaf: Leaf, value: Tensor) -> None:
    """Put the numbers of a leaf where `read_leaf` finds them."""
    _window(stored, leaf)[leaf.index] = value - leaf.plus if leaf.plus else value


def as_stored(value: Tensor, leaf: Leaf) -> Tensor:
    """The stored tensor of a leaf that is all of it; it may share the memory of `value`."""
    view = leaf.view
    stored: Tensor = rearrange(value, f"{' '.join(view.order)} -> {view.stored}", **dict(view.sizes))
    return stored - leaf.plus if leaf.plus else stored


def _window(stored: Tensor, leaf: Leaf) -> Tensor:
    """The tensor as the leaf's view shows it: splits and reorders axes, and shares memory."""
    return rearrange(stored[leaf.view.rows], leaf.view.pattern, **dict(leaf.view.sizes))
