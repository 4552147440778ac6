"""Spaces, axes, views and leaves: which part of which stored tensor lives where.

A *leaf* is one claimed part of one stored tensor.  Its view is an einops-like pattern that splits and reorders the
stored axes into named ones, for instance ``"d (t h k) -> t h k d"`` for a fused, transposed query/key/value tensor;
picking ``t = 0`` claims the queries.  The pattern has a derived inverse, so that reading and writing cannot disagree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import EllipsisType

from onebasin.errors import LayoutMismatch
from onebasin.families import Rep
from onebasin.spec.ops import Op

GUIDE = "correct the table of this architecture: CONTRIBUTING.md, 'Add an architecture', says how"


@dataclass(frozen=True)
class Axis:
    """A tensor axis that lives in a space.  `start` is where the space begins on a longer stored axis.

    The first half of a space stands before the second; stored `interleaved`, they take turns.
    """

    space: str
    rep: Rep = Rep.VEC
    start: int = 0
    interleaved: bool = False

    @property
    def co(self) -> Axis:
        return replace(self, rep=Rep.COV)

    @property
    def perm(self) -> Axis:
        return replace(self, rep=Rep.PERM)

    @property
    def in_turns(self) -> Axis:
        return replace(self, interleaved=True)

    def at(self, start: int) -> Axis:
        return replace(self, start=start)


@dataclass(frozen=True)
class Space:
    """R^size inside the model, touched by `ops`; with a `base`, one copy for each element of the base space."""

    name: str
    size: int
    base: str | None = None
    ops: tuple[Op, ...] = ()


@cache
def letters(pattern: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", pattern))


@dataclass(frozen=True)
class View:
    """``stored`` pattern (axes in storage order, groups in brackets) seen as the letters in ``order``.

    It may cover only some rows of the stored tensor, from ``start`` on: parts of unequal size, one below the other.
    """

    stored: str
    order: tuple[str, ...]
    sizes: tuple[tuple[str, int], ...]
    start: int = 0

    @property
    def pattern(self) -> str:
        return f"{self.stored} -> {' '.join(self.order)}"

    @property
    def shape(self) -> tuple[int, ...]:
        """The stored shape this view expects."""
        return _stored_shape(self.stored, self.sizes)

    @property
    def rows(self) -> slice | EllipsisType:
        """The rows of the stored tensor that it covers; a single number has none."""
        return slice(self.start, self.start + self.shape[0]) if self.shape else ...


@cache
def _stored_shape(stored: str, sizes: tuple[tuple[str, int], ...]) -> tuple[int, ...]:
    """Layers are alike, so that a deep model has few of these."""
    size = dict(sizes)
    groups = re.findall(r"\(([^)]*)\)|(\w+)", stored)
    return tuple(math.prod(size[x] for x in letters(inside or single)) for inside, single in groups)


@dataclass(frozen=True)
class Leaf:
    """One claimed part of the stored tensor `key`; `picks` fixes letters of the view, `axes` places the others.

    The model computes with `times` · (what is stored + `plus`).  A leaf's numbers are those after the sum.
    """

    name: str
    key: str
    view: View
    axes: tuple[tuple[str, Axis | None, int, int], ...]  # (letter, where it lives, start, stop)
    picks: tuple[tuple[str, int], ...] = ()
    plus: float = 0.0
    times: float = 1.0

    @property
    def letters(self) -> tuple[str, ...]:
        return tuple(letter for letter, *_ in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(stop - start for _, _, start, stop in self.axes)

    @property
    def box(self) -> tuple[tuple[int, int], ...]:
        """Where this leaf lies in the viewed tensor: from, to."""
        places = {letter: (start, stop) for letter, _, start, stop in self.axes}
        places |= {letter: (i, i + 1) for letter, i in self.picks}
        return tuple(places[x] for x in self.view.order)

    @property
    def index(self) -> tuple[int | slice | list[int], ...]:
        """The same as an index, with the coordinates of interleaved axes in the order of their space."""
        picked = dict(self.picks)
        kept: dict[str, slice | list[int]] = {}
        for letter, axis, start, stop in self.axes:
            turns = axis is not None and axis.interleaved
            kept[letter] = [*range(start, stop, 2), *range(start + 1, stop, 2)] if turns else slice(start, stop)
        return tuple(picked[x] if x in picked else kept[x] for x in self.view.order)

    @property
    def whole(self) -> bool:
        """Whether it is all of what its view shows, in that order."""
        straight = all(axis is None or not axis.interleaved for _, axis, *_ in self.axes)
        return straight and self.box == tuple((0, dict(self.view.sizes)[x]) for x in self.view.order)

    def spaces(self) -> list[tuple[int, Axis]]:
        """(dimension, axis) of every dimension that lives in a space."""
        return [(i, axis) for i, (_, axis, *_) in enumerate(self.axes) if axis is not None]

    def dim(self, space: str, *reps: Rep) -> int | None:
        """The dimension that lives in `space` with one of these representations (any when none is given)."""
        return next((i for i, axis in self.spaces() if axis.space == space and axis.rep in (reps or Rep)), None)

    def place(self, space: str, rep: Rep) -> int:
        """The same where the table says that there is one."""
        return next(i for i, axis in self.spaces() if axis.space == space and axis.rep is rep)


def make_leaf(
    name: str,
    key: str,
    stored: str,
    order: tuple[str, ...],
    where: Mapping[str, Axis | int],
    size: Mapping[str, int],
    spaces: Mapping[str, Space],
    start: int = 0,
) -> Leaf:
    """Place each letter: an `Axis` in its space, an `int` picks one slice, absent means a labelled axis."""
    sizes, axes, picks = [], [], []
    for x in order:
        place = where.get(x)
        if not isinstance(place, Axis) and x not in size:
            raise LayoutMismatch(
                "The table does not say where an axis of a tensor lives",
                tensor=name,
                axis=x,
                expected=f"{x}=... in the line that declares {key}, or a length of {x} in `sizes`",
                found=f"{', '.join(where) or 'no axis'} there; {', '.join(size) or 'nothing'} in `sizes`",
                next_step=GUIDE,
            )
        if isinstance(place, int):
            picks.append((x, place))
            sizes.append((x, size[x]))
            continue
        own = spaces[place.space].size if place is not None else size[x]
        if not isinstance(own, int) or own < 1:
            step = "correct the sizes and the number of heads in config.json"
            what = "config.json has a size that is no whole number above 0"
            raise LayoutMismatch(what, tensor=name, axis=x, expected="1 or more", found=own, next_step=step)
        first = place.start if place is not None else 0
        axes.append((x, place, first, first + own))
        sizes.append((x, size.get(x, own)))
    return Leaf(name, key, View(stored, order, tuple(sizes), start), tuple(axes), tuple(picks))
