"""Two models in canonical form with one table, and the distance between them under an alignment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from onebasin.alignment import move
from onebasin.checkpoint import Checkpoint
from onebasin.maps import Map
from onebasin.spec import Leaf, ModelSpec

Maps = Mapping[str, Map]


@dataclass(frozen=True)
class Pair:
    """`a` stays, `b` is moved: leaf name -> float64 tensor."""

    spec: ModelSpec
    a: Mapping[str, Tensor]
    b: Mapping[str, Tensor]

    @classmethod
    def of(cls, a: Checkpoint, b: Checkpoint, device: torch.device | str = "cpu") -> Pair:
        """Read two canonical checkpoints of one table into memory."""
        return cls(a.spec, {x: a[x].to(device) for x in a}, {x: b[x].to(device) for x in b})

    def moved(self, leaf: Leaf, maps: Maps, skip: int | None = None) -> Tensor:
        """B's leaf under `maps`, except on its dimension `skip`."""
        return move(self.spec, leaf, self.b[leaf.name], maps, skip=skip)

    def distance(self, maps: Maps, weight: Mapping[str, float], spaces: set[str] | None = None) -> float:
        """Σ over leaves of w |A − π(B)|², over the leaves that touch `spaces` (all when None)."""
        total = 0.0
        for leaf in self.spec.leaves.values():
            touched = spaces is None or any(axis.space in spaces for _, axis in leaf.spaces())
            if touched and weight[leaf.name]:
                difference = self.a[leaf.name] - self.moved(leaf, maps)
                total += weight[leaf.name] * float(difference.square().sum())
        return total
