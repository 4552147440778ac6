"""Where coordinate ascent stands: the maps so far, B moved by the costly ones, and the distance that is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial

from onebasin.families import Rep
from onebasin.maps import Map, map_of
from onebasin.match.circuits import circuit_distance, side
from onebasin.match.options import Families, group_of
from onebasin.match.pair import Maps, Pair
from onebasin.match.strategy import Strategy
from onebasin.spec import Leaf


@dataclass(frozen=True, eq=False)
class Block:
    """One term w |A − π(B)|² of the objective: a leaf, or the circuits of one space, made of several."""

    emphasis: float
    leaves: tuple[Leaf, ...]
    distance: Callable[[Pair, Maps], float]

    @cached_property
    def spaces(self) -> frozenset[str]:
        """What the term depends on."""
        return frozenset(axis.space for leaf in self.leaves for _, axis in leaf.spaces())


class State:
    """The maps of all spaces and the objective Σ w |A − π(B)|².

    Attention counts by its leaves, or by its circuits where the strategy says so (`circuits` is empty for the former).
    `emphasis` is that of every leaf; `counted` is zero for leaves that count as circuits.
    """

    def __init__(self, pair: Pair, families: Families, strategy: Strategy) -> None:
        self.pair, self.strategy, self.spec = pair, strategy, pair.spec
        self.family = {name: families.family(pair.spec, name) for name in pair.spec.spaces}
        self.group = {name: group_of(pair.spec, name) for name in pair.spec.spaces}
        self.bases = {name: space.base for name, space in pair.spec.spaces.items()}
        self.maps = self._identity()
        self.emphasis = strategy.emphasis(pair)
        self.circuits = strategy.circuit_emphasis(pair)
        within = {inner: tuple(leaf for rep in Rep for leaf in side(pair.spec, inner, rep)) for inner in self.circuits}
        as_circuits = {leaf.name for leaves in within.values() for leaf in leaves}
        self.counted = {name: 0.0 if name in as_circuits else w for name, w in self.emphasis.items()}
        single = [pair.spec.leaves[name] for name, w in self.counted.items() if w]
        self.blocks = [Block(self.circuits[x], y, partial(circuit_distance, inner=x)) for x, y in within.items()]
        self.blocks += [Block(self.emphasis[x.name], (x,), partial(Pair.distance, leaf=x)) for x in single]
        self._turned = pair, {name: g for name, g in self.maps.items() if self.group[name] == "residual"}
        self._measured: dict[Block, tuple[list[Map], float]] = {}

    def _identity(self) -> dict[str, Map]:
        device = next(iter(self.pair.a.values())).device
        return {
            name: map_of(self.family[name]).identity(space.size, fibres=self.spec.fibres(name), device=device)
            for name, space in self.spec.spaces.items()
        }

    def turned(self) -> tuple[Pair, dict[str, Map]]:
        """(B in the basis of A's stream, the maps that are left): turning costs most, so it is done once per map."""
        streams = {name: g for name, g in self.maps.items() if self.group[name] == "residual"}
        if any(g is not self._turned[1][name] for name, g in streams.items()):
            self._turned = self.pair, streams  # the former goes first: there is one moved copy of B at a time
            self._turned = self.pair.under(streams), streams
        return self._turned[0], {name: g for name, g in self.maps.items() if name not in streams}

    def distance(self, spaces: Iterable[str] | None = None) -> float:
        """The objective, or the part of it that depends on `spaces`."""
        touched = None if spaces is None else set(spaces)
        chosen = (x for x in self.blocks if touched is None or touched & x.spaces)
        return sum(block.emphasis * self._measure(block) for block in chosen)

    def _measure(self, block: Block) -> float:
        """|A − π(B)|² of a block, which is looked at again only when one of its maps is another."""
        acting = [self.maps[space] for space in block.spaces]
        known = self._measured.get(block)
        if known is None or any(new is not old for new, old in zip(acting, known[0], strict=True)):
            known = self._measured[block] = acting, block.distance(*self.turned())
        return known[1]

    def attempt(self, new: dict[str, Map], *, guard: bool) -> None:
        """Take the new maps, unless guarded and they raise the distance."""
        before = self.distance(new) if guard else 0.0
        old = {name: self.maps[name] for name in new}
        self.maps.update(new)
        if guard and self.distance(new) > before * (1 + 1e-12):
            self.maps.update(old)
