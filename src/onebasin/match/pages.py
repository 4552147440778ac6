"""The pages of two models: the parts of them that matching holds in memory one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import torch

from onebasin.checkpoint import Checkpoint
from onebasin.match.pair import Pair, largest_condition
from onebasin.spec import ModelSpec
from onebasin.spec.pages import page_names


@dataclass(frozen=True)
class Pages:
    """`names` are the leaves of every page, and `read` brings those of both models into memory."""

    spec: ModelSpec
    names: tuple[tuple[str, ...], ...]
    read: Callable[[tuple[str, ...]], Pair]
    condition: float  # as in `Pair`
    device: torch.device | str = "cpu"

    @classmethod
    def of(cls, a: Checkpoint, b: Checkpoint, device: torch.device | str = "cpu", *, keep: bool = True) -> Pages:
        """The pages of two canonical forms of one table; `keep` holds on to what was read."""

        def read(names: tuple[str, ...]) -> Pair:
            return Pair.of(a, b, device, names)

        return cls(a.spec, page_names(a.spec), cache(read) if keep else read, largest_condition(a, b), device)

    @classmethod
    def whole(cls, pair: Pair) -> Pages:
        """Those of two models that are in memory."""
        device = next(iter(pair.a.values())).device
        return cls(pair.spec, page_names(pair.spec), pair.part, pair.condition, device)

    def __iter__(self) -> Iterator[Pair]:
        return map(self.read, self.names)
