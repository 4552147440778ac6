"""Where coordinate ascent stands: the maps so far, the page that is open, and the distance that is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial

from onebasin.families import Rep
from onebasin.maps import Map, map_of
from onebasin.match.circuits import circuit_distance, side
from onebasin.match.options import Families, group_of
from onebasin.match.pages import Pages
from onebasin.match.pair import Maps, Pair
from onebasin.match.sizes import Sizes
from onebasin.match.strategy import Strategy
from onebasin.spec import Leaf

Names = tuple[str, ...]


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
    """The maps of all spaces and the objective Σ w |A − π(B)|², looked at page by page.

    Attention counts by its leaves, or by its circuits where the strategy says so (`circuits` is empty for the former).
    `emphasis` is that of every leaf; `counted` is zero for leaves that count as circuits.
    """

    def __init__(self, pages: Pages, families: Families, strategy: Strategy) -> None:
        self.pages, self.strategy, self.spec = pages, strategy, pages.spec
        self.family = {name: families.family(self.spec, name) for name in self.spec.spaces}
        self.group = {name: group_of(self.spec, name) for name in self.spec.spaces}
        self.bases = {name: space.base for name, space in self.spec.spaces.items()}
        self.maps = self._identity()
        sizes = Sizes.of(pages)
        self.emphasis, self.circuits = strategy.emphasis(sizes), strategy.circuit_emphasis(sizes)
        within = {inner: tuple(leaf for rep in Rep for leaf in side(self.spec, inner, rep)) for inner in self.circuits}
        as_circuits = {leaf.name for leaves in within.values() for leaf in leaves}
        self.counted = {name: 0.0 if name in as_circuits else w for name, w in self.emphasis.items()}
        single = [self.spec.leaves[name] for name, w in self.counted.items() if w]
        blocks = [Block(self.circuits[x], y, partial(circuit_distance, inner=x)) for x, y in within.items()]
        blocks += [Block(self.emphasis[x.name], (x,), partial(Pair.distance, leaf=x)) for x in single]
        where = {name: names for names in pages.names for name in names}
        self.blocks: dict[Names, list[Block]] = {names: [] for names in pages.names}
        for block in blocks:
            self.blocks[where[block.leaves[0].name]].append(block)
        self._open: tuple[Names, Maps, Pair] | None = None
        self._measured: dict[Block, tuple[list[Map], float]] = {}

    def _identity(self) -> dict[str, Map]:
        return {
            name: map_of(self.family[name]).identity(
                space.size, fibres=self.spec.fibres(name), device=self.pages.device
            )
            for name, space in self.spec.spaces.items()
        }

    def turned(self, names: Names) -> tuple[Pair, dict[str, Map]]:
        """(A page with B in the basis of A's stream, the maps that are left); turning costs most, so it is kept."""
        streams = {name: g for name, g in self.maps.items() if self.group[name] == "residual"}
        rest = {name: g for name, g in self.maps.items() if name not in streams}
        known = self._open
        if known is None or known[0] != names or any(known[1][name] is not g for name, g in streams.items()):
            self._open = known = None  # one page is in memory at a time
            self._open = known = names, streams, self.pages.read(names).under(streams)
        return known[2], rest

    def distance(self, names: Names, spaces: Iterable[str] | None = None) -> float:
        """The part of the objective that lies in a page, and depends on `spaces` if these are given."""
        touched = None if spaces is None else set(spaces)
        chosen = (x for x in self.blocks[names] if touched is None or touched & x.spaces)
        return sum(block.emphasis * self._measure(names, block) for block in chosen)

    def total(self) -> float:
        """The objective: only pages with other maps than before are opened again."""
        return sum(self.distance(names) for names in self.pages.names)

    def _measure(self, names: Names, block: Block) -> float:
        """|A − π(B)|² of a block, which is looked at again only when one of its maps is another."""
        acting = [self.maps[space] for space in block.spaces]
        known = self._measured.get(block)
        if known is None or any(new is not old for new, old in zip(acting, known[0], strict=True)):
            known = self._measured[block] = acting, block.distance(*self.turned(names))
        return known[1]

    def attempt(self, names: Names, new: dict[str, Map], *, guard: bool) -> None:
        """Take new maps of a page, unless guarded and they raise the distance."""
        before = self.distance(names, new) if guard else 0.0
        old = {name: self.maps[name] for name in new}
        self.maps.update(new)
        if guard and self.distance(names, new) > before * (1 + 1e-12):
            self.maps.update(old)
