"""Tensors that a file holds in pieces: read into the leaves of a table, and cut again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING

from onebasin.spec import Leaf, Piece

if TYPE_CHECKING:
    from torch import Tensor

    from onebasin.checkpoint.store import Store


def gather(store: Store, pieces: Mapping[str, Piece], leaf: Leaf) -> Tensor:
    """A leaf in float64, from the pieces (by the names in the file) of its tensor; others are not read."""
    import torch
    from einops import rearrange

    whole = torch.empty(leaf.shape, dtype=torch.float64, device=store.device)
    for name, piece in pieces.items():
        if (found := piece.inside(leaf)) is not None:
            taken, place = found
            tensor = rearrange(store.read(name), f"{piece.stored} -> {' '.join(piece.order)}", **piece.sizes)
            whole[place] = tensor[taken].to(torch.float64)
    return whole + leaf.plus


def cut(whole: Tensor, piece: Piece) -> Tensor:
    """A piece of a stored tensor, as it is stored."""
    from einops import rearrange

    viewed = rearrange(whole, piece.view.pattern, **dict(piece.view.sizes))[piece.index]
    tensor: Tensor = rearrange(viewed, f"{' '.join(piece.order)} -> {piece.stored}")
    return tensor


class Once:
    """A tensor that pieces are cut from: made for the first of them, forgotten after the last, in whatever threads."""

    def __init__(self, make: Callable[[], Tensor], pieces: int) -> None:
        self._make, self._left, self._lock = make, pieces, Lock()
        self._made: Tensor | None = None

    def cut(self, piece: Piece) -> Tensor:
        """One of the pieces."""
        with self._lock:
            whole = self._make() if self._made is None else self._made
            self._left -= 1
            self._made = whole if self._left > 0 else None
        return cut(whole, piece)
