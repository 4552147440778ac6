"""Transport: move a checkpoint by an alignment.  Exact when every map lies in the family of its space."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial

import torch
from torch import Tensor

from onebasin.alignment.alignment import Alignment
from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.recent import Recent
from onebasin.maps import Map
from onebasin.spec import Leaf, ModelSpec

RECENT = Recent()  # of all models together, so that memory does not grow with their number


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
    """`transport` by maps that need not be symmetries; they go where the leaves are.

    What a gauge puts into biases is made with the moved weights, so these are kept for a while.
    """
    spec, own = checkpoint.spec, object()

    @cache
    def placed(device: torch.device) -> dict[str, Map]:
        return {space: g.to(device=device) for space, g in maps.items()}

    def moved(leaf: Leaf) -> Tensor:
        tensor = checkpoint[leaf.name]
        return move(spec, leaf, tensor, placed(tensor.device))

    def kept(leaf: Leaf) -> Tensor:
        return RECENT.take((own, leaf.name, checkpoint.store.device), partial(moved, leaf))

    touched = {leaf.name: leaf for space in maps for leaf in spec.touching[space]}
    biased = {linear.weight for linear in spec.linears.values() if linear.bias is not None}
    return checkpoint.derive({x: partial(kept if x in biased else moved, leaf) for x, leaf in touched.items()})
