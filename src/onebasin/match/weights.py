"""Weight matching: coordinate ascent on the distance between two models' weights; no data (first paper, 3.3).

    minimise over alignments π   Σ over blocks of  w |A − π(B)|²

Spaces take turns: the residual stream (Procrustes), hidden units (assignment), heads (assignment of circuits), the maps
inside heads (two-sided least squares).  The stream starts from the anchors, leaves whose other axes are labelled and so
agree between the models by name: embeddings, positions, heads.  Blocks are the leaves, or circuits in place of the
leaves of attention (`strategy.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import torch

from onebasin.alignment import Alignment
from onebasin.maps import Map, map_of
from onebasin.match.circuits import inner_spaces
from onebasin.match.heads import match_heads
from onebasin.match.insides import solve_insides
from onebasin.match.moments import cross_moment
from onebasin.match.options import Families, WeightMatching
from onebasin.match.pair import Pair
from onebasin.match.state import State
from onebasin.match.strategy import Strategy

Tick = Callable[[str], None]


class Ascent(State):
    """The steps of coordinate ascent."""

    def __init__(
        self, pair: Pair, families: Families, strategy: Strategy, spaces: Collection[str] = WeightMatching.spaces
    ) -> None:
        super().__init__(pair, families, strategy)
        matched = [name for name, group in self.group.items() if group in spaces]
        self.heads = list(dict.fromkeys(base for name in matched if (base := self.bases[name])))
        self.streams = [name for name in matched if self.group[name] != "attention"]

    def anchors(self, space: str) -> dict[str, float]:
        """The emphasis of the anchors of `space` alone; empty where it has none."""
        leaves = self.spec.leaves.values()
        anchors = {x.name for x in leaves if x.dim(space) is not None and len(x.spaces()) == 1 and len(x.axes) > 1}
        return {name: w if name in anchors else 0.0 for name, w in self.emphasis.items()} if anchors else {}

    def match_streams(self, *, start: bool) -> None:
        """Residual streams and hidden units, from their anchors at the start, if they have any."""
        for space in self.streams:
            anchors = self.anchors(space) if start else {}
            solved = self._solve_units if self.group[space] == "units" else self._solve_residual
            self.attempt({space: solved(space, anchors)}, guard=self.strategy.guard and not start)

    def _solve_residual(self, space: str, anchors: dict[str, float]) -> Map:
        """Procrustes, or an assignment; where anchors are too few to tell, as near as can be to the map so far."""
        cross = cross_moment(self.pair, self.maps, space, anchors or self.counted)
        if self.strategy.circuit_moment and not anchors:
            cross += self.strategy.circuit_moment(*self.turned(), space, self.circuits) @ self.maps[space].dense()
        return map_of(self.family[space]).project(cross, near=self.maps[space].dense())

    def _solve_units(self, space: str, anchors: dict[str, float]) -> Map:
        return self.strategy.units(*self.turned(), space, self.family[space], anchors or self.counted)

    def match_attention(self, *, start: bool) -> None:
        """Heads by their circuits; then all inside-head maps of one kind in one batch; accepted layer by layer."""
        found: dict[str, Map] = {}
        for heads in self.heads:
            found |= match_heads(*self.turned(), heads, self.strategy.head_metric)
        if not self.circuits:
            found |= self._solve_insides(found)
        for heads in self.heads:
            layer = {name for name, base in self.bases.items() if base == heads} | {heads}
            new = {name: g for name, g in found.items() if name in layer}
            self.attempt(new, guard=self.strategy.guard and not start)

    def _solve_insides(self, heads: dict[str, Map]) -> dict[str, Map]:
        pair, maps = self.turned()
        spaces = [inner for base in self.heads for inner in inner_spaces(self.spec, base)]
        return solve_insides(pair, {**maps, **heads}, spaces, self.family, self.emphasis)

    def finish(self) -> None:
        """Where the objective does not see the maps inside heads, they are solved last."""
        if self.circuits:
            self.maps.update(self._solve_insides({}))


@dataclass(frozen=True)
class Matched:
    """An alignment, and the distance before, after the start, and after every sweep."""

    alignment: Alignment
    distances: tuple[float, ...]
    converged: bool

    def to(self, device: torch.device | str) -> Matched:
        """The same on a device."""
        return replace(self, alignment=self.alignment.to(device))


def match_weights(
    pair: Pair,
    options: WeightMatching | None = None,
    strategy: Strategy | None = None,
    *,
    start: Alignment | None = None,
    tick: Tick = lambda step: None,
) -> Matched:
    """Align B with A by their weights alone; where `start` is given, only by steps onward from there.

    What is found is kept only if it is nearer than what was there before, `start` or else B as it is.
    """
    options = options or WeightMatching()
    ascent = Ascent(pair, options, strategy or Strategy(), options.spaces)
    if start is not None:
        ascent.maps.update(start.to(next(iter(pair.a.values())).device).maps)
    before, distances, converged = dict(ascent.maps), [ascent.distance()], False
    for sweep in range(options.sweeps):
        tick(f"sweep {sweep + 1}, objective {distances[-1]:.6g}")
        fresh = sweep == 0 and start is None
        ascent.match_streams(start=fresh)
        ascent.match_attention(start=fresh)
        distances.append(ascent.distance())
        if options.tol and not fresh and distances[-2] - distances[-1] <= options.tol * distances[-2]:
            converged = True
            break
    if not distances[-1] < distances[0]:
        ascent.maps.update(before)
        distances.append(distances[0])
    ascent.finish()
    return Matched(Alignment(ascent.maps, ascent.bases), tuple(distances), converged)
