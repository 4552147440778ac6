"""Pieces: one tensor of the table that some files hold as many.

Experts are the case: a mixture's table has one tensor for all of them, "x (t f) d", as the model in memory may have.
Files have that one, or a tensor "f d" for every expert x and every part t.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from onebasin.spec.leaves import Leaf, View, letters


@dataclass(frozen=True)
class Piece:
    """The slice of the tensor `key`, with this view, in which some letters are fixed by `picks`."""

    key: str
    view: View
    picks: tuple[tuple[str, int], ...]

    @property
    def stored(self) -> str:
        """The pattern of the slice: that of the whole tensor without the letters that are fixed."""
        fixed = dict(self.picks)
        groups = [[x for x in letters(group) if x not in fixed] for group in _groups(self.view.stored)]
        return " ".join(f"({' '.join(group)})" for group in groups if group)

    @property
    def order(self) -> tuple[str, ...]:
        """Its letters in the order of the view."""
        return tuple(x for x in self.view.order if x not in dict(self.picks))

    @property
    def sizes(self) -> dict[str, int]:
        return {x: n for x, n in self.view.sizes if x in self.order}

    @property
    def shape(self) -> tuple[int, ...]:
        """The stored shape of the slice."""
        return tuple(prod(self.sizes[x] for x in letters(group)) for group in _groups(self.stored))

    @property
    def index(self) -> tuple[int | slice, ...]:
        """Where it lies in the viewed tensor."""
        fixed = dict(self.picks)
        return tuple(fixed.get(x, slice(None)) for x in self.view.order)

    def inside(self, leaf: Leaf) -> tuple[tuple[int | slice, ...], tuple[int | slice, ...]] | None:
        """(which part of the piece, where in the leaf), for a leaf that has some of it."""
        fixed, picked = dict(self.picks), dict(leaf.picks)
        span = {x: (start, stop) for x, _, start, stop in leaf.axes}
        if any(picked[x] != i if x in picked else not span[x][0] <= i < span[x][1] for x, i in fixed.items()):
            return None
        taken = tuple(picked[x] if x in picked else slice(*span[x]) for x in self.order)
        return taken, tuple(fixed[x] - start if x in fixed else slice(None) for x, (start, _) in span.items())


def _groups(pattern: str) -> list[str]:
    return re.findall(r"\([^)]*\)|\w+", pattern)
