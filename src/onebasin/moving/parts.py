"""What moves a part of a stored tensor, in all layers at once: maps along its axes, and gains of norms.

Gains are how a norm and what reads it share their product:

    W (γ ⊙ n) = (W diag(1/s)) (s ⊙ γ ⊙ n)   for every s > 0

Folding puts all of γ into W.  Each model may be written with any s, and the average of two depends on the choice:

    ½(W_A + W_B diag(1/s)) ((1 + s)/2 ⊙ n),   that is, shares (1 + s)/4 of A's reader and (1 + 1/s)/4 of B's

in every coordinate.  Their sum is at least one: gains make good some of what averaging takes from the size of weights.
Only the ratio of two gains counts, so the first model keeps its own.  The coordinates are those of A's basis, or of one
that both models are rotated into: gains do not commute with rotations, so there A moves for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from onebasin.families import Rep
from onebasin.maps import Map
from onebasin.maps.indexed import along
from onebasin.moving.coordinates import Moves
from onebasin.moving.stacks import Stack
from onebasin.spec import ModelSpec

UNTOUCHED = None, ""


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
    """A map acts on axis `dim` of a stacked leaf; with fibres, these are over the layers and axis `base`."""

    dim: int
    rep: Rep
    base: int | None

    def __call__(self, g: Map, x: Tensor) -> Tensor:
        """Act on `x` (L, ...)."""
        if g.fibres is None:
            return g.act(x, self.dim, self.rep)
        if self.base is None:
            return g.act(x, self.dim, self.rep, base_dim=0)
        flat = x.movedim(self.base, 1).flatten(0, 1)  # layers and heads are one axis
        moved = g.act(flat, self.dim - (self.dim > self.base), self.rep, base_dim=0)
        apart: Tensor = moved.unflatten(0, (x.shape[0], -1))
        return apart.movedim(1, self.base)


class Given(NamedTuple):
    """A part of some layers (L, ...) as it is stored, and what moves it there."""

    frozen: Tensor
    maps: tuple[Map, ...] = ()
    gains: Tensor | None = None  # (L, d)
    scale: Tensor | None = None


@dataclass(frozen=True)
class Part:
    """One leaf of a stored tensor, the same in every layer: where it lies in the view, and what acts on it."""

    index: tuple[int | slice | list[int], ...]
    actions: tuple[Action, ...]
    writes: bool  # to a stream that is scaled
    gained: Gained | None
    plus: float  # what the model adds to the stored numbers

    @property
    def moves(self) -> bool:
        return bool(self.actions) or self.writes or self.gained is not None

    def moved(self, given: Given, dtype: torch.dtype) -> Tensor:
        """The part (L, ...) under its maps and factors."""
        x = given.frozen.to(dtype)
        for action, g in zip(self.actions, given.maps, strict=False):  # none where the model stays
            x = action(g, x)
        if self.gained is not None and given.gains is not None:
            x = self.gained(given.gains, x)
        return x * given.scale if self.writes and given.scale is not None else x


Place = tuple[Stack, tuple[str, ...]]  # a stack, and some of its spaces: one in every layer


@dataclass(frozen=True)
class Source:
    """Which leaves a part is, one in every layer, what acts on each, and the norms whose gains do."""

    leaves: tuple[str, ...]
    places: tuple[Place, ...]
    norms: tuple[str, ...]

    def given(self, frozen: Tensor, moves: Moves, maps: Mapping[Place, Map]) -> Given:
        """The part with what moves it; of the maps those that are there."""
        own = tuple(maps[place] for place in self.places if place in maps)
        gains = torch.stack([moves.gains[norm] for norm in self.norms]) if moves.gains and self.norms[0] else None
        return Given(frozen, own, gains, moves.scale)


def take_maps(sources: Iterable[Source], moves: Moves) -> dict[Place, Map]:
    """The maps that act on these, each taken once from those of its stack; none where the model stays."""
    places = {place for source in sources for place in source.places} if moves.maps else set()
    return {place: _taken(moves.maps[place[0].name], *place) for place in places}


def _taken(g: Map, stack: Stack, spaces: tuple[str, ...]) -> Map:
    """The maps of these spaces, from those of the stack."""
    return g if stack.fibres is None or spaces == stack.spaces else g.take(stack.fibres_of(spaces))
