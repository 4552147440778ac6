"""The frozen weights of a block of one model, and what the learned maps make of them.

Tensors of a block that play the same role in different layers lie in one tensor (L, ...), so that a step takes one
product per role and learned axis: for the whole of a small model, or for one layer of a large one.  The axis of the
residual stream is moved first, while its operand is still frozen: then going back costs one product, for the map alone.
Inside a head comes before the heads, as in `alignment.move`.

Gains are how a norm and what reads it share their product:

    W (γ ⊙ n) = (W diag(1/s)) (s ⊙ γ ⊙ n)   for every s > 0

Folding puts all of γ into W.  Each model may be written with any s, and the average of two depends on the choice:

    ½(W_A + W_B diag(1/s)) ((1 + s)/2 ⊙ n),   that is, shares (1 + s)/4 of A's reader and (1 + 1/s)/4 of B's

in every coordinate.  Their sum is at least one: gains make good some of what averaging takes from the size of weights.
Only the ratio of two gains counts, so the first model keeps its own.  The coordinates are those of A's basis, or of one
that both models are rotated into: gains do not commute with rotations, so there A moves for good.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from onebasin.checkpoint import Checkpoint
from onebasin.families import Rep
from onebasin.maps import Map
from onebasin.maps.indexed import along
from onebasin.moving.coordinates import Moves
from onebasin.moving.stacks import Gains, Stack, role, stacks
from onebasin.spec import Leaf, ModelSpec
from onebasin.spec.leaves import View, letters

UNTOUCHED = None, ""
Kept = Callable[[Checkpoint, str], torch.dtype]


@dataclass(frozen=True)
class Gained:
    """Axis `dim` of a stacked leaf is that of what a norm hands on: its own, or that of what `reads` it."""

    dim: int
    reads: bool

    def __call__(self, factors: Tensor, x: Tensor) -> Tensor:
        """`factors` (L, d) of the norms' gains act on `x` (L, ...)."""
        return x * along(1 / factors if self.reads else factors, x.ndim, self.dim, 0)


def touched_by(spec: ModelSpec, norms: Iterable[str]) -> dict[str, tuple[Gained, str]]:
    """The leaves that change with the gains of these norms, and with which."""
    found: dict[str, tuple[Gained, str]] = {}
    for name in norms:
        norm = spec.norms[name]
        found |= {leaf: (Gained(1, reads=False), name) for leaf in (norm.gain, norm.bias) if leaf is not None}
        for reader in spec.readers(name):
            dim = spec.leaves[reader.weight].place(norm.space, Rep.COV)
            found[reader.weight] = Gained(dim + 1, reads=True), name
    return found


@dataclass(frozen=True)
class Action:
    """The map of `stack` acts on axis `dim` of a stacked leaf; its fibres are over the layers and axis `base`."""

    stack: Stack
    dim: int
    rep: Rep
    base: int | None

    def __call__(self, g: Map, x: Tensor, spaces: tuple[str, ...]) -> Tensor:
        """Act on `x` (L, ...), whose layers have these spaces."""
        if self.stack.fibres is None:
            return g.act(x, self.dim, self.rep)
        if spaces != self.stack.spaces:
            g = g.take(self.stack.fibres_of(spaces))
        if self.base is None:
            return g.act(x, self.dim, self.rep, base_dim=0)
        flat = x.movedim(self.base, 1).flatten(0, 1)  # layers and heads are one axis
        moved = g.act(flat, self.dim - (self.dim > self.base), self.rep, base_dim=0)
        apart: Tensor = moved.unflatten(0, (x.shape[0], -1))
        return apart.movedim(1, self.base)


@dataclass(frozen=True)
class Part:
    """One leaf of a stored tensor, the same in every layer: where it lies in the view, and what acts on it."""

    leaves: tuple[str, ...]
    index: tuple[int | slice | list[int], ...]
    actions: tuple[tuple[Action, tuple[str, ...]], ...]
    writes: bool  # to a stream that is scaled
    gained: Gained | None  # by the gains of `norms`, one in every layer
    norms: tuple[str, ...]
    plus: float  # what the model adds to the stored numbers

    @property
    def moves(self) -> bool:
        return bool(self.actions) or self.writes or self.gained is not None


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
class Group:
    """Stored tensors of one role, `keys[i]` in layer i, in blocks of rows."""

    keys: tuple[str, ...]
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
        columns = [self._part(column) for column in zip(*rows, strict=True)]
        shown = sorted(set(views), key=lambda view: view.start)
        blocks = [Rows.of(view, [x for x, own in zip(columns, views, strict=True) if own == view]) for view in shown]
        return Group(tuple(leaves[0].key for leaves in rows), tuple(blocks))

    def _signature(self, leaf: Leaf) -> tuple[object, ...]:
        """What leaves must have in common to lie in one tensor."""
        gained, _ = self.touched.get(leaf.name, UNTOUCHED)
        return leaf.index, _actions(self.spec, leaf, self.by_space), leaf.name in self.written, gained

    def _part(self, leaves: Sequence[Leaf]) -> Part:
        actions = [
            (action, tuple(dict(leaf.spaces())[action.dim - 1].space for leaf in leaves))
            for action in _actions(self.spec, leaves[0], self.by_space)
        ]
        names = tuple(x.name for x in leaves)
        gained, _ = self.touched.get(names[0], UNTOUCHED)
        norms = tuple(self.touched.get(name, UNTOUCHED)[1] for name in names)
        return Part(names, leaves[0].index, tuple(actions), names[0] in self.written, gained, norms, leaves[0].plus)


def _actions(spec: ModelSpec, leaf: Leaf, by_space: Mapping[str, Stack]) -> list[Action]:
    where: dict[str | None, int] = {axis.space: dim + 1 for dim, axis in leaf.spaces()}
    bases = {space.base for space in spec.spaces.values()}

    def turn(space: str) -> int:
        return 2 if space in bases else int(spec.spaces[space].base is not None)

    placed = sorted((turn(axis.space), dim, axis) for dim, axis in leaf.spaces() if axis.space in by_space)
    return [
        Action(by_space[axis.space], dim + 1, axis.rep, where.get(spec.spaces[axis.space].base))
        for _, dim, axis in placed
    ]


class Weights(nn.Module):
    """One model's tensors in groups.  What no learned map touches, or all if `frozen`, is put together once.

    They are parameters without gradient, kept in the types `kept` says (by stored tensor) and handed out in `dtype`;
    flat, so that any number of processes can share them out evenly.
    """

    def __init__(
        self, checkpoint: Checkpoint, groups: list[Group], dtype: torch.dtype, kept: Kept, *, frozen: bool = False
    ) -> None:
        super().__init__()
        self.groups, self.dtype, self.shapes = groups, dtype, dict[tuple[int, int], torch.Size]()
        self.still = [frozen or not any(part.moves for part in group.parts) for group in groups]
        for i, group in enumerate(groups):
            rests = kept(checkpoint, group.keys[0])
            parts = [torch.stack([checkpoint[leaf] for leaf in part.leaves]).to(rests) for part in group.parts]
            for j, tensor in enumerate([group.stored(parts)] if self.still[i] else parts):
                flat = nn.Parameter(tensor.contiguous().flatten(), requires_grad=False)
                self.register_parameter(f"_{i}_{j}", flat)
                self.shapes[i, j] = tensor.shape

    def forward(self, moves: Moves) -> dict[int, Tensor]:
        """The stored tensors (L, ...) of every group under the learned maps and factors."""
        return {i: self._moved(i, moves) for i in range(len(self.groups))}

    def _frozen(self, i: int, j: int) -> Tensor:
        return self.get_parameter(f"_{i}_{j}").view(self.shapes[i, j])

    def _moved(self, i: int, moves: Moves) -> Tensor:
        if self.still[i]:
            return self._frozen(i, 0).to(self.dtype)
        parts = []
        for j, part in enumerate(self.groups[i].parts):
            x = self._frozen(i, j).to(self.dtype)
            for action, spaces in part.actions if moves.maps else ():
                x = action(moves.maps[action.stack.name], x, spaces)
            if part.gained is not None and moves.gains:
                x = part.gained(torch.stack([moves.gains[norm] for norm in part.norms]), x)
            parts.append(x * moves.scale if part.writes and moves.scale is not None else x)
        return self.groups[i].stored(parts)

    @property
    def by_rows(self) -> bool:
        """Whether this is one table whose rows move one by one: rows can be taken first and moved after."""
        (group, *more) = self.groups
        (part, *others) = group.parts
        single = not more and not others and len(group.keys) == 1 and len(group.blocks[0].sizes) == 2
        return single and all(action.dim == 2 and action.stack.fibres is None for action, _ in part.actions)

    def rows(self, index: Tensor, moves: Moves) -> Tensor:
        """The rows `index` of the table, moved."""
        (part,) = self.groups[0].parts
        x = self._frozen(0, 0)[0][index].to(self.dtype)
        if self.still[0]:
            return x
        for action, _ in part.actions if moves.maps else ():
            x = moves.maps[action.stack.name].act(x, -1, action.rep)
        return x * moves.scale if part.writes and moves.scale is not None else x
