"""Transport: move a checkpoint by an alignment.  Exact when every map lies in the family of its space."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial

import torch
from torch import Tensor

from onebasin.alignment.alignment import Alignment
from onebasin.checkpoint import Checkpoint
from onebasin.maps import Map
from onebasin.spec import Leaf, ModelSpec


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
    return moved_by(checkpoint, alignment.maps)


def moved_by(checkpoint: Checkpoint, maps: Mapping[str, Map]) -> Checkpoint:
    """`transport` by maps that need not be symmetries; they go where the leaves are."""

    @cache
    def placed(device: torch.device) -> dict[str, Map]:
        return {space: g.to(device=device) for space, g in maps.items()}

    def moved(leaf: Leaf) -> Tensor:
        tensor = checkpoint[leaf.name]
        return move(checkpoint.spec, leaf, tensor, placed(tensor.device))

    touched = {leaf.name: leaf for space in maps for leaf in checkpoint.spec.touching[space]}
    return checkpoint.derive({name: partial(moved, leaf) for name, leaf in touched.items()})
