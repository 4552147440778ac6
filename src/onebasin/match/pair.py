"""Two models in canonical form with one table, and the distance between them under an alignment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from onebasin.alignment import move
from onebasin.checkpoint import Checkpoint, rounding_unit
from onebasin.maps import Map
from onebasin.spec import Leaf, ModelSpec

Maps = Mapping[str, Map]

CONDITION = 1e4  # of maps inside heads, at most


@dataclass(frozen=True)
class Pair:
    """`a` stays, `b` is moved: leaf name -> float64 tensor.

    `condition` is the largest that maps inside heads may have: the stored dtype still tells the weakest direction from
    none, and the inverse keeps its digits in float64.
    """

    spec: ModelSpec
    a: Mapping[str, Tensor]
    b: Mapping[str, Tensor]
    condition: float = CONDITION

    @classmethod
    def of(cls, a: Checkpoint, b: Checkpoint, device: torch.device | str = "cpu") -> Pair:
        """Read two canonical checkpoints of one table into memory."""
        unit = rounding_unit(kind for form in (a, b) for _, kind in form.stored.values())
        condition = min(1 / unit, CONDITION)
        return cls(a.spec, {x: a[x].to(device) for x in a}, {x: b[x].to(device) for x in b}, condition)

    def moved(self, leaf: Leaf, maps: Maps, skip: int | None = None) -> Tensor:
        """B's leaf under `maps`, except on its dimension `skip`."""
        return move(self.spec, leaf, self.b[leaf.name], maps, skip=skip)

    def under(self, maps: Maps) -> Pair:
        """The pair with B moved by `maps`; what acts on other spaces can still be applied."""
        touched = [x for x in self.spec.leaves.values() if any(axis.space in maps for _, axis in x.spaces())]
        return replace(self, b={**self.b, **{leaf.name: self.moved(leaf, maps) for leaf in touched}})

    def distance(self, maps: Maps, leaf: Leaf) -> float:
        """|A − π(B)|² of one leaf."""
        return float((self.a[leaf.name] - self.moved(leaf, maps)).square().sum())
