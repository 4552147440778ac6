"""The method `weight`: the basis in which the weights of the models are closest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, ClassVar

from onebasin.ensemble.work import Load, matching
from onebasin.match.options import WeightMatching, check_two
from onebasin.methods.method import Inputs, Job, Method
from onebasin.papers.options import PaperMatching

if TYPE_CHECKING:
    from onebasin.alignment import Alignment
    from onebasin.checkpoint import Checkpoint
    from onebasin.ensemble.aligned import Aligned
    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.match.weights import Matched
    from onebasin.spec import ModelSpec
    from onebasin.tasks import AnyTask


@dataclass(frozen=True)
class Weight(WeightMatching, Method):
    """Coordinate ascent on the distance of the weights: no data, no forward pass, seconds."""

    name: ClassVar[str] = "weight"
    summary: ClassVar[str] = "brings the weights as close as they get; runs no model, needs no data, takes seconds"

    paper: PaperMatching = field(default_factory=PaperMatching)

    def check(self, models: Sequence[Checkpoint]) -> None:
        if self.extra != "zero":
            check_two(len(models))

    def stages(self, spec: ModelSpec, inputs: Inputs | None) -> dict[str, Load]:
        return {"matching": matching(spec, self.sweeps)}

    def run(self, ensemble: Ensemble, data: AnyTask | None, job: Job) -> Aligned:
        """Match every model with the first, or with the mean of all."""
        from onebasin.match.filling import match_filled
        from onebasin.match.many import match_ensemble
        from onebasin.match.pages import Pages
        from onebasin.match.weights import match_weights
        from onebasin.papers.strategies import strategy_of

        room = job.memory.room(job.solver, ensemble.spec)
        keep = 16 * sum(map(prod, ensemble.spec.keys.values())) <= room  # both models in float64

        def pages(a: Checkpoint, b: Checkpoint) -> Pages:
            return Pages.of(a, b, job.solver, keep=keep)

        def match(a: Checkpoint, b: Checkpoint, start: Alignment | None) -> Matched:
            return match_weights(pages(a, b), self, strategy_of(self.paper), start=start, tick=job.tick).to("cpu")

        with ensemble.resting(job.solver, 0 if keep else room):
            if self.extra != "zero" and ensemble.widened:
                return match_filled(ensemble, self, strategy_of(self.paper), pages, job.tick)
            return match_ensemble(ensemble, match, job.gathering, job.tick)
