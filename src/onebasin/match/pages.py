"""Pages: the parts of two models that matching holds in memory one at a time.

A page is all that one block of a model stores: the leaves that share its hidden units or its heads.  Blocks meet only
in the residual stream.  Embeddings and heads of the vocabulary are pages of their own; all that is small is one more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from math import prod

import torch

from onebasin.checkpoint import Checkpoint
from onebasin.match.options import group_of
from onebasin.match.pair import Pair, largest_condition
from onebasin.spec import ModelSpec

SMALL = 2**20  # numbers in a leaf that may share a page with leaves of other blocks


@dataclass(frozen=True)
class Pages:
    """`names` are the leaves of every page, and `read` brings those of both models into memory."""

    spec: ModelSpec
    names: tuple[tuple[str, ...], ...]
    read: Callable[[tuple[str, ...]], Pair]
    device: torch.device | str = "cpu"

    @classmethod
    def of(cls, a: Checkpoint, b: Checkpoint, device: torch.device | str = "cpu", *, keep: bool = True) -> Pages:
        """The pages of two canonical forms of one table; `keep` holds on to what was read."""

        condition = largest_condition(a, b)

        def read(names: tuple[str, ...]) -> Pair:
            ours, theirs = ({x: form[x].to(device) for x in names} for form in (a, b))
            return Pair(a.spec, ours, theirs, condition)

        return cls(a.spec, page_names(a.spec), cache(read) if keep else read, device)

    @classmethod
    def whole(cls, pair: Pair) -> Pages:
        """Those of two models that are in memory."""
        device = next(iter(pair.a.values())).device
        return cls(pair.spec, page_names(pair.spec), pair.part, device)

    def __iter__(self) -> Iterator[Pair]:
        return map(self.read, self.names)


def page_names(spec: ModelSpec) -> tuple[tuple[str, ...], ...]:
    """The leaves of every page, by the spaces of blocks that they share."""
    inside = {name: root for root, names in _blocks(spec).items() for name in names}
    pages: dict[str, list[str]] = {}
    for leaf in spec.leaves.values():
        blocks = [inside[axis.space] for _, axis in leaf.spaces() if axis.space in inside]
        own = leaf.name if prod(leaf.shape) > SMALL else ""
        pages.setdefault(blocks[0] if blocks else own, []).append(leaf.name)
    return tuple(map(tuple, pages.values()))


def _blocks(spec: ModelSpec) -> dict[str, set[str]]:
    """Spaces that are no streams, gathered where a leaf has several of them."""
    blocks = {name: {name} for name in spec.spaces if group_of(spec, name) != "residual"}
    for leaf in spec.leaves.values():
        meeting = {axis.space for _, axis in leaf.spaces()}
        first, *others = [root for root, names in blocks.items() if names & meeting] or [""]
        for other in others:
            blocks[first] |= blocks.pop(other)
    return blocks
