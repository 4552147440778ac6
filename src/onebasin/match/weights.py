"""Weight matching: coordinate ascent on the distance between two models' weights; no data (P1, section 3.3).

    minimise over alignments π   Σ over leaves of  w |A − π(B)|²

Spaces take turns: the residual stream (Procrustes), heads (assignment of circuits), the maps inside heads (two-sided
least squares), hidden units (assignment).  The stream starts from the anchors, leaves whose other axes are labelled and
so agree between the models by name: embeddings, positions, heads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from onebasin.alignment import Alignment
from onebasin.families import Rep
from onebasin.maps import Map, map_of
from onebasin.match.blocks import block_weights, circuit_weights
from onebasin.match.circuits import circuit_distance, inner_spaces, side, touching
from onebasin.match.heads import METRICS, match_heads
from onebasin.match.moments import Moments, weight_moments
from onebasin.match.options import WeightMatching, group_of
from onebasin.match.pair import Pair
from onebasin.match.solve import solve
from onebasin.match.stream import circuit_cross, p1_code_cross
from onebasin.match.units import solve_units

__all__ = ["Ascent", "Matched", "Tick", "WeightMatching", "match_weights"]

Tick = Callable[[str], None]


def stack(maps: list[Map]) -> Map:
    """Fibred maps of one kind as one map with all their fibres."""
    parts = [g.tensors() for g in maps]
    return type(maps[0]).from_tensors({name: torch.cat([p[name] for p in parts]) for name in parts[0]})


class Ascent:
    """The state of coordinate ascent: the maps so far and the distance they leave.

    In the distance, and for the stream, attention counts by its leaves or by its circuits, as `moments` says.
    """

    def __init__(self, pair: Pair, options: WeightMatching) -> None:
        self.pair, self.options, self.spec = pair, options, pair.spec
        self.family = {name: options.family(pair.spec, name) for name in pair.spec.spaces}
        self.bases = {name: space.base for name, space in pair.spec.spaces.items()}
        self.maps = self._identity()
        matched = [name for name in pair.spec.spaces if options.matches(pair.spec, name)]
        self.heads = list(dict.fromkeys(base for name in matched if (base := self.bases[name])))
        self.streams = [name for name in matched if self.bases[name] is None and name not in self.heads]
        self.weight = block_weights(pair, options.weighting)
        self.circuits = {} if options.moments == "factors" else circuit_weights(pair, options.weighting)
        as_circuits = {leaf.name for inner in self.circuits for rep in Rep for leaf in side(pair.spec, inner, rep)}
        self.counted = {name: 0.0 if name in as_circuits else w for name, w in self.weight.items()}

    def _identity(self) -> dict[str, Map]:
        device = next(iter(self.pair.a.values())).device
        return {
            name: map_of(self.family[name]).identity(space.size, fibres=self.spec.fibres(name), device=device)
            for name, space in self.spec.spaces.items()
        }

    def distance(self, spaces: Iterable[str] | None = None) -> float:
        """The objective, or the part of it that depends on `spaces`."""
        moved = None if spaces is None else set(spaces)
        total = self.pair.distance(self.maps, self.counted, moved)
        for inner, w in self.circuits.items():
            if moved is None or moved & touching(self.spec, inner):
                total += w * circuit_distance(self.pair, self.maps, inner)
        return total

    def attempt(self, new: dict[str, Map], *, guard: bool) -> None:
        """Take the new maps, unless guarded and they raise the distance."""
        before = self.distance(new) if guard else 0.0
        old = {name: self.maps[name] for name in new}
        self.maps.update(new)
        if guard and self.distance(new) > before * (1 + 1e-12):
            self.maps.update(old)

    def anchors(self, space: str) -> dict[str, float]:
        """Block weights of the anchors of `space` alone; empty where it has none."""
        leaves = self.spec.leaves.values()
        anchors = {x.name for x in leaves if x.dim(space) is not None and len(x.spaces()) == 1 and len(x.axes) > 1}
        return {name: w if name in anchors else 0.0 for name, w in self.weight.items()} if anchors else {}

    def match_streams(self, *, start: bool) -> None:
        for space in self.streams:
            anchors = self.anchors(space) if start else {}
            self.attempt({space: self._solve_stream(space, anchors)}, guard=self.options.guard and not start)

    def _solve_stream(self, space: str, anchors: dict[str, float]) -> Map:
        """From the anchors, if any are given, or else from all that counts."""
        family, weight = self.family[space], anchors or self.counted
        if group_of(self.spec, space) == "units":
            return solve_units(self.pair, self.maps, space, family, weight, self.options.unit_cost)
        cross = weight_moments(self.pair, self.maps, space, weight).cross
        if self.circuits and not anchors:
            from_circuits = circuit_cross if self.options.moments == "circuits" else p1_code_cross
            cross = cross + from_circuits(self.pair, self.maps, space, self.circuits)
        return map_of(family).project(cross)

    def match_attention(self, *, start: bool) -> None:
        """Heads by their circuits; then all inside-head maps of one kind in one batch; accepted layer by layer."""
        found: dict[str, Map] = {}
        for heads in self.heads:
            found |= match_heads(self.pair, self.maps, heads, METRICS[self.options.head_metric])
        if not self.circuits:
            found |= self._match_insides({**self.maps, **found})
        for heads in self.heads:
            layer = {name for name, base in self.bases.items() if base == heads} | {heads}
            new = {name: g for name, g in found.items() if name in layer}
            self.attempt(new, guard=self.options.guard and not start)

    def finish(self) -> None:
        """Where the objective does not see the maps inside heads, they are solved last."""
        if self.circuits:
            self.maps.update(self._match_insides(self.maps))

    def _match_insides(self, maps: dict[str, Map]) -> dict[str, Map]:
        kinds = defaultdict(list)
        for heads in self.heads:
            for space in inner_spaces(self.spec, heads):
                kinds[self.family[space], self.spec.spaces[space].size].append(space)
        found: dict[str, Map] = {}
        for (family, _), spaces in kinds.items():
            moments = [weight_moments(self.pair, maps, space, self.weight) for space in spaces]
            arrivals = [maps[str(self.bases[space])].tensors()["index"] for space in spaces]
            start = stack([maps[space].take(index) for space, index in zip(spaces, arrivals, strict=True)])
            solved, first = solve(family, Moments.stack(moments), start), 0
            for space, index in zip(spaces, arrivals, strict=True):
                found[space] = solved.take(first + index.argsort())
                first += len(index)
        return found


@dataclass(frozen=True)
class Matched:
    """An alignment, and the distance before, after the start, and after every sweep."""

    alignment: Alignment
    distances: tuple[float, ...]
    converged: bool


def match_weights(pair: Pair, options: WeightMatching | None = None, tick: Tick = lambda step: None) -> Matched:
    """Align B with A by their weights alone."""
    options = options or WeightMatching()
    ascent = Ascent(pair, options)
    distances, converged = [ascent.distance()], False
    for sweep in range(options.sweeps):
        tick(f"sweep {sweep + 1}, distance {distances[-1]:.6g}")
        ascent.match_streams(start=sweep == 0)
        ascent.match_attention(start=sweep == 0)
        distances.append(ascent.distance())
        if options.tol and sweep and distances[-2] - distances[-1] <= options.tol * distances[-2]:
            converged = True
            break
    ascent.finish()
    return Matched(Alignment(ascent.maps, ascent.bases), tuple(distances), converged)
