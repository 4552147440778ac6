"""Transport: move a checkpoint by an alignment.  Exact when every map lies in the family of its space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from onebasin.alignment.alignment import Alignment
from onebasin.checkpoint import Checkpoint
from onebasin.maps import Map
from onebasin.spec import Leaf, ModelSpec

if TYPE_CHECKING:
    from torch import Tensor


def move(spec: ModelSpec, leaf: Leaf, tensor: Tensor, maps: Mapping[str, Map], *, skip: int | None = None) -> Tensor:
    """Act on every axis of one leaf but `skip`: inside the fibres first, then on the bases that carry them."""
    where = {axis.space: dim for dim, axis in leaf.spaces()}
    fibres_first = sorted(leaf.spaces(), key=lambda placed: spec.spaces[placed[1].space].base is None)
    for dim, axis in fibres_first:
        if axis.space in maps and dim != skip:
            base = spec.spaces[axis.space].base
            tensor = maps[axis.space].act(tensor, dim, axis.rep, base_dim=None if base is None else where[base])
    return tensor


def transport(checkpoint: Checkpoint, alignment: Alignment) -> Checkpoint:
    """The checkpoint in the basis that `alignment` gives it; lazily, leaf by leaf."""
    alignment.check(checkpoint.spec)
    return checkpoint.derive(
        {
            leaf.name: _moved(checkpoint, leaf, alignment.maps)
            for leaf in checkpoint.spec.leaves.values()
            if any(axis.space in alignment.maps for _, axis in leaf.spaces())
        }
    )


def _moved(checkpoint: Checkpoint, leaf: Leaf, maps: Mapping[str, Map]) -> Callable[[], Tensor]:
    return lambda: move(checkpoint.spec, leaf, checkpoint[leaf.name], maps)
