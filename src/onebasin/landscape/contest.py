"""Several alignments of the same models, compared by how high the loss rises between the models on inputs held back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from onebasin.ensemble.aligned import Aligned
from onebasin.ensemble.ensemble import Ensemble
from onebasin.landscape.evaluate import evaluate
from onebasin.landscape.teacher import Teacher
from onebasin.paths import FactorPath
from onebasin.paths.points import Point, grid, vertices
from onebasin.tasks import AnyTask

PLACES = [(1 - share, share) for share in (0.2, 0.35, 0.5, 0.65, 0.8)]  # of two models; of more, middles and centre

ROUNDING = 1e-7  # of a loss in float32


class Contest:
    """The candidates so far.  The height of a place is the loss there above that of the end points by their shares.

    With labels the loss is that of the task; without, the disagreement with what the end points say at that place.  Of
    several tasks it is the weighted mean of these.
    """

    def __init__(
        self, ensemble: Ensemble, held: AnyTask, *, agreement: bool, device: torch.device, tick: Callable[[str], None]
    ) -> None:
        self.held, self.device, self.tick = (held.unlabelled() if agreement else held).to(device), device, tick
        count = len(ensemble)
        self.places: Sequence[Point] = PLACES if count == 2 else grid(count)[count:]
        self.teacher = None if self.held.scored else Teacher(ensemble.forms, held.kind).to(device)
        self.ends = self._losses(FactorPath(*ensemble.forms), vertices(count))
        self.candidates: dict[str, Aligned] = {}
        self.heights: dict[str, float] = {}

    def enter(self, name: str, candidate: Aligned) -> None:
        """Measure a candidate."""
        self.tick(f"comparing: {name}")
        losses = self._losses(FactorPath(*candidate.forms, paces=candidate.paces), self.places)
        chords = [sum(s * end for s, end in zip(place, self.ends, strict=True)) for place in self.places]
        self.candidates[name] = candidate
        self.heights[name] = max(loss - chord for loss, chord in zip(losses, chords, strict=True))

    def _losses(self, path: FactorPath, places: Sequence[Point]) -> list[float]:
        """At every place; against a teacher, the divergence from what it says there."""
        found = []
        for place in places:
            model = path.model(place, device=self.device)
            target = None if self.teacher is None else self.teacher.at(place)
            found.append(evaluate(model, self.held, target=target, device=self.device).loss)
        return found

    @property
    def winner(self) -> str:
        """The candidate with the lowest path; of several that differ by rounding alone, the one that came first."""
        lowest = min(self.heights.values())
        return next(name for name, height in self.heights.items() if height <= lowest + ROUNDING)

    @property
    def best(self) -> Aligned:
        """The winner itself."""
        return self.candidates[self.winner]

    def result(self, seen: str) -> Aligned:
        """The best of all, with the figures that this rests on."""
        by = "the task loss" if self.teacher is None else "agreement with the end points"
        heights = ", ".join(f"{height:.4g} by {name}" for name, height in self.heights.items())
        why = (
            f"{seen}; on those held back {by} rises between the models by up to {heights}; "
            f"the lowest is kept: {self.winner}"
        )
        course = {**self.best.course, "why": why, "heights": self.heights, "kept": self.winner}
        return replace(self.best, course=course)
