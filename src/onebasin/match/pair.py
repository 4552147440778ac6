"""Two models in canonical form with one table, and the distance between them under an alignment."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from onebasin.alignment import move
from onebasin.checkpoint import Checkpoint, rounding_unit
from onebasin.maps import Map
from onebasin.spec import Leaf, ModelSpec

Maps = Mapping[str, Map]

CONDITION = 1e5  # of maps inside heads, at most


def largest_condition(a: Checkpoint, b: Checkpoint) -> float:
    """Of maps inside heads: the stored dtypes still tell the weakest direction from none."""
    return min(1 / rounding_unit(kind for form in (a, b) for _, kind in form.stored.values()), CONDITION)


@dataclass(frozen=True)
class Pair:
    """`a` stays, `b` is moved: leaf name -> float64 tensor, of all leaves or of some (a page).

    `condition` is the largest that maps inside heads may have: the stored dtype still tells the weakest direction from
    none, and the inverse keeps its digits in float64.
    """

    spec: ModelSpec
    a: Mapping[str, Tensor]
    b: Mapping[str, Tensor]
    condition: float = CONDITION

    @classmethod
    def of(
        cls, a: Checkpoint, b: Checkpoint, device: torch.device | str = "cpu", names: Collection[str] | None = None
    ) -> Pair:
        """Read two canonical checkpoints of one table into memory, or the leaves of these names."""
        ours, theirs = ({x: form[x].to(device) for x in (form if names is None else names)} for form in (a, b))
        return cls(a.spec, ours, theirs, largest_condition(a, b))

    def part(self, names: Collection[str]) -> Pair:
        """Some leaves of it."""
        return replace(self, a={x: self.a[x] for x in names}, b={x: self.b[x] for x in names})

    def moved(self, leaf: Leaf, maps: Maps, skip: int | None = None) -> Tensor:
        """B's leaf under `maps`, except on its dimension `skip`."""
        return move(self.spec, leaf, self.b[leaf.name], maps, skip=skip)

    def under(self, maps: Maps) -> Pair:
        """The pair with B moved by `maps`; what acts on other spaces can still be applied."""
        return replace(self, b={name: self.moved(self.spec.leaves[name], maps) for name in self.b})

    def distance(self, maps: Maps, leaf: Leaf) -> float:
        """|A − π(B)|² of one leaf."""
        return float((self.a[leaf.name] - self.moved(leaf, maps)).square().sum())
