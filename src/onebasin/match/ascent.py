"""The steps of coordinate ascent, page by page.

A sweep is one pass over the pages.  Each is turned by the stream's map so far, its units and heads are solved, and its
share of the stream's moment is added.  After the pass the moment gives the stream's next map.  So the memory is that of
the maps, one D×D moment, and one page of each model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection

from torch import Tensor

from onebasin.linalg.workers import Workers
from onebasin.maps import Map, map_of
from onebasin.match.circuits import inner_spaces
from onebasin.match.experts import match_experts
from onebasin.match.heads import match_heads
from onebasin.match.insides import Problem, inside_problem, solve_insides
from onebasin.match.moments import cross_moment
from onebasin.match.options import Families, WeightMatching
from onebasin.match.pages import Pages
from onebasin.match.pair import Maps, Pair
from onebasin.match.state import Names, State
from onebasin.match.strategy import Strategy

Ready = Callable[[Pair, Maps], Map]


class Ascent(State):
    """Coordinate ascent on the distance of weights; `spaces` are the groups that move."""

    def __init__(
        self, pages: Pages, families: Families, strategy: Strategy, workers: Workers,
        spaces: Collection[str] = WeightMatching.spaces,
    ) -> None:  # fmt: skip
        super().__init__(pages, families, strategy)
        self.workers = workers
        matched = [name for name, group in self.group.items() if group in spaces]
        self.heads = list(dict.fromkeys(base for name in matched if (base := self.bases[name]) in self.spec.heads))
        self.streams = [name for name in matched if self.group[name] == "residual"]
        self.experts = [name for name in matched if name in self.spec.experts]
        single = (name for name in matched if name not in self.experts and self.bases[name] is None)
        self.units = [name for name in single if self.group[name] == "units"]
        self.moments: dict[str, Tensor] = {}
        large = any(workers.takes(self.spec.spaces[name].size, pages.device) for name in self.units)
        self.ahead = workers.count if large else 0  # pages whose units are being solved while others are looked at

    def anchors(self, space: str, known: Collection[str] = ()) -> dict[str, float]:
        """The emphasis of the anchors of `space` alone; empty where it has none.

        Maps between it and streams that are `known` are anchors as well: those are turned already.
        """
        here = (leaf for leaf in self.spec.touching[space] if len(leaf.axes) > 1)
        anchors = {x.name for x in here if all(axis.space in (space, *known) for _, axis in x.spaces())}
        return {name: w if name in anchors else 0.0 for name, w in self.emphasis.items()} if anchors else {}

    def start_streams(self, *, fresh: bool) -> None:
        """The first step of the streams: from their anchors if nothing is known yet and they have any; these first."""
        left, known = list(self.streams), list[str]()
        while left:
            space = next((name for name in left if self.anchors(name, known)), left[0])
            left.remove(space)
            anchors = self.anchors(space, known) if fresh else {}
            known.append(space)
            self.moments = {space: self._zero(space)}
            for names in self.pages.names:
                if anchors and any(anchors[name] for name in names):
                    self.moments[space] += cross_moment(*self.turned(names), space, anchors)
                elif not anchors:
                    self._gather(names, space)
            self.step_streams()

    def step_streams(self) -> None:
        """Procrustes, or an assignment; where moments are too few to tell, as near as can be to the map so far."""
        for space, moment in self.moments.items():
            here = self.maps[space].dense()
            self.maps[space] = map_of(self.family[space]).project(moment @ here, near=here)

    def sweep(self, *, start: bool) -> float:
        """One pass; returns the distance that it found, under the stream's map of now and all other maps of before."""
        found, waiting = 0.0, deque[tuple[Names, dict[str, Ready]]]()
        self.moments = {space: self._zero(space) for space in self.streams}
        for names in self.pages.names:
            found += self.distance(names)
            waiting.append((names, self._begin_units(names, start)))
            if len(waiting) > self.ahead:
                self._finish(*waiting.popleft(), start)
        while waiting:
            self._finish(*waiting.popleft(), start)
        return found

    def _begin_units(self, names: Names, start: bool) -> dict[str, Ready]:
        solved, here = self.strategy.units, self.spec.spaces_of(names)
        return {
            space: solved(*self.turned(names), space, self.family[space], self._emphasis(space, start), self.workers)
            for space in self.units
            if space in here
        }

    def _emphasis(self, space: str, start: bool) -> dict[str, float]:
        return (self.anchors(space) if start else {}) or self.counted

    def _finish(self, names: Names, units: dict[str, Ready], start: bool) -> None:
        guard = self.strategy.guard and not start
        for space, ready in units.items():
            self.attempt(names, {space: ready(*self.turned(names))}, guard=guard)
        self.match_heads(names, guard=guard)
        self.match_experts(names, guard=guard)
        for space in self.streams:
            self._gather(names, space)
        self.distance(names)

    def match_heads(self, names: Names, *, guard: bool) -> None:
        """The heads of a page by their circuits; and the maps inside them where these count."""
        here = self.spec.spaces_of(names)
        for heads in (x for x in self.heads if x in here):
            pair, maps = self.turned(names)
            found = match_heads(pair, maps, heads, self.strategy.head_metric)
            if not self.circuits:
                found |= solve_insides(self._insides(pair, {**maps, **found}, heads), pair.condition)
            self.attempt(names, found, guard=guard)

    def match_experts(self, names: Names, *, guard: bool) -> None:
        """The experts of a page, with their units."""
        here = self.spec.spaces_of(names)
        for experts in (x for x in self.experts if x in here):
            self.attempt(names, match_experts(*self.turned(names), experts, self.family, self.counted), guard=guard)

    def _insides(self, pair: Pair, maps: Maps, heads: str) -> list[Problem]:
        spaces = inner_spaces(self.spec, heads)
        return [inside_problem(pair, maps, space, self.family[space], self.emphasis) for space in spaces]

    def _gather(self, names: Names, space: str) -> None:
        """Add what a page says of a stream, with B in the basis found so far."""
        pair, maps = self.turned(names)
        self.moments[space] += cross_moment(pair, maps, space, self.counted)
        here = {inner: w for inner, w in self.circuits.items() if inner in self.spec.spaces_of(names)}
        if here:
            self.moments[space] += self.strategy.circuit_moment(pair, maps, space, here)

    def _zero(self, space: str) -> Tensor:
        size = self.spec.spaces[space].size
        return self.maps[space].dense().new_zeros(size, size)

    def finish(self) -> None:
        """Where the objective does not see the maps inside heads, they are solved last: all pages in one batch."""
        problems: list[Problem] = []
        for names in self.pages.names if self.circuits else ():
            for heads in self.spec.spaces_of(names).intersection(self.heads):
                problems += self._insides(*self.turned(names), heads)
        self.maps.update(solve_insides(problems, self.pages.condition))
