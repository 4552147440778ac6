"""How the tensors of a block lie: in groups of one role, in parts that maps act on, the same in layers that are alike.

Tensors that play the same role in different layers lie in one tensor (L, ...), so that a step takes one product per
role and learned axis: for the whole of a small model, or for one layer of a large one.  The axis of the residual stream
is moved first, while its operand is still frozen: then going back costs one product, for the map alone.  Inside a head
comes before the heads, as in `alignment.move`.  What moves a part is in `parts.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from onebasin.moving.parts import UNTOUCHED, Action, Part, Source, touched_by
from onebasin.moving.stacks import Gains, Stack, role, stacks
from onebasin.spec import Leaf, ModelSpec
from onebasin.spec.leaves import Axis, View, letters


@dataclass(frozen=True)
class Rows:
    """Rows of a stored tensor that one view shows: `parts` lie in a view of `sizes`, and `order` brings it back."""

    parts: tuple[Part, ...]
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, view: View, parts: Iterable[Part]) -> Rows:
        order = tuple(view.order.index(x) for x in letters(view.stored))
        return cls(tuple(parts), tuple(size for _, size in view.sizes), order, view.shape)

    def stored(self, tensors: list[Tensor]) -> Tensor:
        """The stored rows (L, ...), from the parts (L, ...) of their view."""
        parts = [x - part.plus if part.plus else x for part, x in zip(self.parts, tensors, strict=True)]
        whole = parts[0]
        if len(parts) > 1 or not all(isinstance(place, slice) for place in self.parts[0].index):
            whole = whole.new_empty([len(whole), *self.sizes])
            for part, tensor in zip(self.parts, parts, strict=True):
                whole[(slice(None), *part.index)] = tensor
        back = [0, *[1 + dim for dim in self.order]]
        return whole.permute(back).reshape([len(whole), *self.shape])


@dataclass(frozen=True)
class Layout:
    """How the tensors of a group lie, whichever layers they are of: in blocks of rows."""

    blocks: tuple[Rows, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part for block in self.blocks for part in block.parts)

    @property
    def length(self) -> int:
        """How many rows a stored tensor has."""
        return sum(block.shape[0] for block in self.blocks)

    def stored(self, parts: list[Tensor]) -> Tensor:
        """The stored tensors (L, ...), from the parts (L, ...) of their views."""
        left = iter(parts)
        rows = [block.stored([next(left) for _ in block.parts]) for block in self.blocks]
        return rows[0] if len(rows) == 1 else torch.cat(rows, 1)


@dataclass(frozen=True)
class Group:
    """Stored tensors of one role, `keys[i]` in layer i, and where each part of their layout comes from."""

    keys: tuple[str, ...]
    layout: Layout
    sources: tuple[Source, ...]


class Grouping:
    """Stored tensors of a table by role; only the stacks named in `learned` act, and the gains in `gained`."""

    def __init__(
        self, spec: ModelSpec, learned: Iterable[str], gained: Iterable[Gains] = (), *, scaled: bool = False
    ) -> None:
        names = set(learned)
        self.spec = spec
        self.by_space = {space: stack for stack in stacks(spec) if stack.name in names for space in stack.spaces}
        self.written = {leaf.name for space in spec.streams for leaf in spec.writers(space)} if scaled else set()
        self.touched = touched_by(spec, [name for one in gained for name in one.norms])

    def of(self, keys: Collection[str]) -> list[Group]:
        """Those of the stored tensors `keys`."""
        alike = defaultdict(list)
        for key, parts in self.spec.parts.items():
            if key in keys:
                views = tuple(leaf.view for leaf in parts)
                alike[role(key), views, str([self._signature(leaf) for leaf in parts])].append(parts)
        return [self._group(views, rows) for (_, views, _), rows in alike.items()]

    def _group(self, views: tuple[View, ...], rows: Sequence[Sequence[Leaf]]) -> Group:
        columns = list(zip(*rows, strict=True))
        shown = sorted(set(views), key=lambda view: view.start)
        within = [[column for column, own in zip(columns, views, strict=True) if own == view] for view in shown]
        blocks = [Rows.of(view, [self._part(x[0]) for x in own]) for view, own in zip(shown, within, strict=True)]
        sources = [self._source(column) for own in within for column in own]
        return Group(tuple(leaves[0].key for leaves in rows), Layout(tuple(blocks)), tuple(sources))

    def _signature(self, leaf: Leaf) -> tuple[object, ...]:
        """What leaves must have in common to lie in one tensor."""
        return self._part(leaf), [stack.name for stack, _, _ in self._acting(leaf)]

    def _part(self, leaf: Leaf) -> Part:
        where: dict[str | None, int] = {axis.space: dim + 1 for dim, axis in leaf.spaces()}
        actions = tuple(
            Action(dim + 1, axis.rep, where.get(self.spec.spaces[axis.space].base))
            for _, dim, axis in self._acting(leaf)
        )
        gained, _ = self.touched.get(leaf.name, UNTOUCHED)
        return Part(leaf.index, actions, leaf.name in self.written, gained, leaf.plus)

    def _source(self, leaves: Sequence[Leaf]) -> Source:
        each = zip(*(self._acting(leaf) for leaf in leaves), strict=True)
        spaces = tuple((layers[0][0], tuple(axis.space for _, _, axis in layers)) for layers in each)
        norms = tuple(self.touched.get(leaf.name, UNTOUCHED)[1] for leaf in leaves)
        return Source(tuple(leaf.name for leaf in leaves), spaces, norms)

    def _acting(self, leaf: Leaf) -> list[tuple[Stack, int, Axis]]:
        """The stacks whose maps act on a leaf, in turn, each with the axis that it acts on."""
        bases = {space.base for space in self.spec.spaces.values()}

        def turn(space: str) -> int:
            return 2 if space in bases else int(self.spec.spaces[space].base is not None)

        placed = sorted((turn(axis.space), dim, axis) for dim, axis in leaf.spaces() if axis.space in self.by_space)
        return [(self.by_space[axis.space], dim, axis) for _, dim, axis in placed]
