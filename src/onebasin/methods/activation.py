"""The method `activation`: the basis in which the models say the most alike on inputs without labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, ClassVar, Literal

from onebasin.ensemble.work import Load, looking, matching
from onebasin.match.options import ActivationMatching
from onebasin.methods.method import UNSEEN, Inputs, Job, Method

if TYPE_CHECKING:
    from onebasin.alignment import Alignment
    from onebasin.checkpoint import Checkpoint
    from onebasin.ensemble.aligned import Aligned
    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.match.probes import Batch
    from onebasin.match.weights import Matched
    from onebasin.spec import ModelSpec
    from onebasin.tasks import AnyTask

PROBES = 500  # inputs that activations are looked at on, at most


@dataclass(frozen=True)
class Activation(ActivationMatching, Method):
    """What flows through the models on some inputs decides the stream, and with the weights the hidden units."""

    name: ClassVar[str] = "activation"
    summary: ClassVar[str] = "compares what flows through the models on inputs of --task, without labels; seconds"
    needs: ClassVar[Literal["nothing", "inputs"]] = "inputs"

    def stages(self, spec: ModelSpec, inputs: Inputs | None) -> dict[str, Load]:
        assert inputs is not None
        seen = min(inputs.samples, PROBES) * inputs.tokens
        return {"activations": looking(spec, seen) + matching(spec, 1)}

    def to_measure_on(self, data: AnyTask) -> tuple[AnyTask, str]:
        if len(data) > PROBES:
            return data.after(PROBES), UNSEEN
        return data, "the method has seen them, without their labels"

    def run(self, ensemble: Ensemble, data: AnyTask | None, job: Job) -> Aligned:
        """Match every model with the first, or with the mean of all."""
        import torch

        from onebasin.checkpoint.stock import stock_model
        from onebasin.checkpoint.streamed import streamed_model
        from onebasin.match.activations import match_activations
        from onebasin.match.many import match_ensemble
        from onebasin.match.pages import Pages

        assert data is not None
        probes = data.first(min(len(data), PROBES)).to(job.solver)

        def batches() -> Iterator[Batch]:
            return (inputs for inputs, _ in probes.batches(job.batch_size))

        parameters = sum(map(prod, ensemble.spec.keys.values()))
        room = job.memory.room(job.solver, ensemble.spec)
        keep = 24 * parameters <= room  # both models in float64, and as they run in float32
        left = room - 24 * parameters if keep else room / 2

        def match(a: Checkpoint, b: Checkpoint, start: Alignment | None) -> Matched:
            first, second = (
                stock_model(form, torch.float32).to(job.solver) if keep else streamed_model(form, torch.float32)
                for form in (a, b)
            )
            pages = Pages.of(a, b, job.solver, keep=keep)
            return match_activations(pages, first, second, batches, self, room=left, tick=job.tick).to("cpu")

        with ensemble.resting(job.solver, 0 if keep else room - left):
            return match_ensemble(ensemble, match, job.gathering, job.tick)
