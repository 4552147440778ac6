"""θ(λ) of a block from its frozen tensors and what moves them: one computation for all layers that are alike.

Layers have their own tensors and maps, and the same `Making`.  On a GPU it can be compiled, once for all of them: a
layer takes some hundred small operations, which cost more time to start than to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from onebasin.linalg import mixture
from onebasin.moving.layout import Layout
from onebasin.moving.parts import Given
from onebasin.moving.weights import put_together

BETWEEN = -1  # in place of the number of a model
Parts = Sequence[Sequence[Sequence[Given]]]  # of every model, group and layout
Make = Callable[[Parts, Sequence[Tensor]], list[Tensor]]


@dataclass(frozen=True)
class Making:
    """`layouts` are of the groups of every model, None where nothing moves one.

    Parameter p of the block is row `places[p][2]` of group `places[p][1]`, of the model `places[p][0]` or BETWEEN them.
    """

    layouts: tuple[tuple[Layout | None, ...], ...]
    places: tuple[tuple[int, int, int], ...]
    dtype: torch.dtype
    run_as: torch.dtype

    def __call__(self, given: Parts, shares: Sequence[Tensor]) -> list[Tensor]:
        """The parameters, from the parts of every model's groups and the running shares (M,) or (M, L, ...) of each."""
        ends = [put_together(own, x, self.dtype) for own, x in zip(self.layouts, given, strict=True)]
        between = [mixture(same, own) for own, *same in zip(shares, *ends, strict=True)]
        rows = {(end, i) for end, i, _ in self.places}
        apart = {(end, i): (between if end == BETWEEN else ends[end])[i].unbind(0) for end, i in rows}
        return [apart[end, i][row].to(self.run_as) for end, i, row in self.places]


@dataclass
class Makings:
    """Those of a model, each once; with `compiled`, what several blocks share is compiled."""

    compiled: bool = False
    known: dict[str, Shared] = field(default_factory=dict)

    def share(self, making: Making) -> Shared:
        """The one that computes the same, for one block more."""
        shared = self.known.setdefault(repr(making), Shared(making, self.compiled))
        shared.blocks += 1
        return shared


@dataclass
class Shared:
    """One of them, and how many blocks it serves."""

    making: Making
    compiled: bool
    blocks: int = 0

    @cached_property
    def make(self) -> Make:
        """Called after all blocks are there."""
        many = self.compiled and self.blocks > 1
        return torch.compile(self.making.__call__, dynamic=False) if many else self.making
