"""Weight matching: coordinate ascent on the distance between two models' weights; no data (first paper, 3.3).

    minimise over alignments π   Σ over blocks of  w |A − π(B)|²

Spaces take turns: the residual stream (Procrustes), hidden units (assignment), heads (assignment of circuits), the maps
inside heads (two-sided least squares).  The stream starts from the anchors, leaves whose other axes are labelled and so
agree between the models by name: embeddings, positions, heads.  Blocks are the leaves, or circuits in place of the
leaves of attention (`strategy.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from onebasin.alignment import Alignment
from onebasin.linalg.workers import workers
from onebasin.match.ascent import Ascent
from onebasin.match.options import WeightMatching
from onebasin.match.pages import Pages
from onebasin.match.strategy import Strategy

Tick = Callable[[str], None]


@dataclass(frozen=True)
class Matched:
    """An alignment, and the distance before and after every sweep."""

    alignment: Alignment
    distances: tuple[float, ...]
    converged: bool

    def to(self, device: torch.device | str) -> Matched:
        """The same on a device."""
        return replace(self, alignment=self.alignment.to(device))


def match_weights(
    pages: Pages,
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
    tick("looking at the weights")
    with workers() as pool:
        ascent = Ascent(pages, options, strategy or Strategy(), pool, options.spaces)
        if start is not None:
            ascent.maps.update(start.to(pages.device).maps)
        before, distances = dict(ascent.maps), [ascent.total()]
        converged = _ascend(ascent, options, distances, fresh=start is None, tick=tick)
        if not distances[-1] < distances[0]:
            ascent.maps.update(before)
            distances.append(distances[0])
        ascent.finish()
    return Matched(Alignment(ascent.maps, ascent.bases), tuple(distances), converged)


def _ascend(ascent: Ascent, options: WeightMatching, distances: list[float], *, fresh: bool, tick: Tick) -> bool:
    """Sweep until a round gains too little, or the step of the streams made it worse: then that one is taken back."""
    before = dict(ascent.maps)
    ascent.start_streams(fresh=fresh)
    for sweep in range(options.sweeps):
        tick(f"sweep {sweep + 1}, objective {distances[-1]:.6g}")
        start = fresh and sweep == 0
        found = ascent.sweep(start=start)
        if ascent.strategy.guard and not start and found > distances[-1] * (1 + 1e-12):
            ascent.maps.update(before)
            distances.append(distances[-1])
            return True
        distances.append(ascent.total())
        if options.tol and not start and distances[-2] - distances[-1] <= options.tol * distances[-2]:
            return True
        before = dict(ascent.maps)
        if sweep + 1 < options.sweeps:
            ascent.step_streams()
    return False
