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

import numpy as np
import torch

from onebasin.alignment import Alignment
from onebasin.maps import Map
from onebasin.match.circuits import METRICS, group_space, match_heads
from onebasin.match.moments import Moments, weight_moments
from onebasin.match.pair import Pair
from onebasin.match.solve import solve

Tick = Callable[[str], None]


@dataclass(frozen=True)
class WeightMatching:
    """How to match: at most `sweeps` rounds, until one gains less than `tol` of the distance.

    `weighting` is how blocks count (see `block_weights`), `head_metric` how circuits are compared, and `guard` refuses
    every step after the start that raises the distance, so that the objective never falls.
    """

    sweeps: int = 15
    weighting: str = "balanced"
    head_metric: str = "frobenius-squared"
    guard: bool = True
    tol: float = 1e-5


def block_weights(pair: Pair, kind: str) -> dict[str, float]:
    """w for every leaf:  1 ("raw"),  |A|^-1/2 |B|^-1/2 ("balanced"),  or  1/(|A||B|) ("angle").

    Between raw, where the largest blocks decide, and angle, where every block counts alike, balanced did best on the
    pairs measured.  Blocks far below the median size are treated as if they had a tenth of it: noise in a dead layer
    must not be blown up.
    """
    size = {name: float(a.norm() * pair.b[name].norm()) for name, a in pair.a.items()}
    middle = float(np.median([size[name] for name, a in pair.a.items() if a.ndim > 1]))
    power = {"raw": 0.0, "balanced": -0.5, "angle": -1.0}[kind]
    return {name: (s + 0.1 * middle) ** power for name, s in size.items()}


def stack(maps: list[Map]) -> Map:
    """Fibred maps of one kind as one map with all their fibres."""
    parts = [g.tensors() for g in maps]
    return type(maps[0]).from_tensors({name: torch.cat([p[name] for p in parts]) for name in parts[0]})


class Ascent:
    """The state of coordinate ascent: the maps so far and the distance they leave."""

    def __init__(self, pair: Pair, options: WeightMatching) -> None:
        self.pair, self.options, self.spec = pair, options, pair.spec
        self.weight = block_weights(pair, options.weighting)
        identity = Alignment.identity(pair.spec)
        device = next(iter(pair.a.values())).device
        self.bases = identity.bases
        self.maps: dict[str, Map] = {name: g.to(device=device) for name, g in identity.maps.items()}
        self.heads = list(dict.fromkeys(base for base in self.bases.values() if base))
        self.streams = [name for name, base in self.bases.items() if base is None and name not in self.heads]

    def distance(self, spaces: Iterable[str] | None = None) -> float:
        return self.pair.distance(self.maps, self.weight, None if spaces is None else set(spaces))

    def attempt(self, new: dict[str, Map], *, guard: bool) -> None:
        """Take the new maps, unless guarded and they raise the distance."""
        before = self.distance(new) if guard else 0.0
        old = {name: self.maps[name] for name in new}
        self.maps.update(new)
        if guard and self.distance(new) > before * (1 + 1e-12):
            self.maps.update(old)

    def anchored(self, space: str) -> dict[str, float]:
        """Block weights of the anchors of `space` alone, or all of them where it has none."""
        leaves = self.spec.leaves.values()
        anchors = {x.name for x in leaves if x.dim(space) is not None and len(x.spaces()) == 1 and len(x.axes) > 1}
        return {name: w if name in anchors else 0.0 for name, w in self.weight.items()} if anchors else self.weight

    def match_streams(self, *, start: bool) -> None:
        for space in self.streams:
            weight = self.anchored(space) if start else self.weight
            moments = weight_moments(self.pair, self.maps, space, weight)
            self.attempt({space: solve(self.spec.family(space), moments)}, guard=self.options.guard and not start)

    def match_attention(self, *, start: bool) -> None:
        """Heads by their circuits; then all inside-head maps of one kind in one batch; accepted layer by layer."""
        found: dict[str, Map] = {}
        for heads in self.heads:
            found |= match_heads(self.pair, self.maps, heads, METRICS[self.options.head_metric])
        trial = {**self.maps, **found}
        insides = self._match_insides(trial)
        for heads in self.heads:
            layer = {name for name, base in self.bases.items() if base == heads} | {heads}
            new = {name: g for name, g in (found | insides).items() if name in layer}
            self.attempt(new, guard=self.options.guard and not start)

    def _match_insides(self, maps: dict[str, Map]) -> dict[str, Map]:
        kinds = defaultdict(list)
        for space, base in self.bases.items():
            if base is not None and space != group_space(self.pair, base):
                kinds[self.spec.family(space), self.spec.spaces[space].size].append(space)
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
        if sweep and distances[-2] - distances[-1] <= options.tol * distances[-2]:
            converged = True
            break
    return Matched(Alignment(ascent.maps, ascent.bases), tuple(distances), converged)
