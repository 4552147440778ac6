"""The method `auto`: the best alignment that can be had from what is there.

1. Inputs: the task's, or where there is none what the models make up themselves (`onebasin.tasks.synthetic`).
2. Candidates: no alignment at all, weight matching and activation matching.
3. Learning from the best of them: by the task loss where there are labels, by agreement with the end points where not.
4. Of all of these, the end of learning included, the one that leaves the lowest path on inputs held back.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from onebasin.ensemble.work import Load, tokens_of
from onebasin.errors import BadRecipe, Diverged
from onebasin.match.options import Gathering
from onebasin.methods.activation import Activation
from onebasin.methods.learned import Learned
from onebasin.methods.method import CHOSE, Inputs, Job, Method
from onebasin.methods.weight import Weight

if TYPE_CHECKING:
    import torch

    from onebasin.checkpoint import Checkpoint
    from onebasin.ensemble.aligned import Aligned
    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.spec import ModelSpec
    from onebasin.tasks import AnyTask, Task, Training

HELD = 0.2  # the share of the inputs that is held back
QUICK: dict[str, Any] = {  # near the centre
    "steps": 300, "batch": 64, "lr": 3e-3, "eval_every": 25, "compile": "off", "alpha": 10.0,
}  # fmt: skip
FREE: dict[str, Any] = {  # for an average of models that write text, which no model of the pair has to go with
    "learn": ("residual", "qk", "ov", "gains", "shares"), "two_sided": True, "optimizer": "muon", "lr": 0.015,
}  # fmt: skip
SAID = {"learn", "two_sided", "optimizer", "path", "paper"}  # who says one of these decides what learns, and how
MODEST = {**QUICK, "steps": 100, "batch": 16}  # minutes on a CPU
TEXTS, PICTURES = 250, 1000  # inputs that are made up on a CPU: words are slow to write
LONGEST = 256  # tokens of a text, at most


@dataclass(frozen=True)
class Auto(Method):
    """The other methods in order; their sections are its options."""

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = "tries the others and learns, from a --task or from inputs it makes up; minutes on a CPU"
    learns: ClassVar[bool] = True

    weight: Weight = field(default_factory=Weight)
    activation: Activation = field(default_factory=Activation)
    learned: Learned = field(default_factory=lambda: Learned(start=None, **MODEST))

    @classmethod
    def fill(cls, sections: dict[str, Any], device: torch.device, *, merges: bool = False) -> None:
        quick = MODEST if device.type == "cpu" else QUICK
        if isinstance(given := sections.get("learned", {}), dict):
            free = merges and not given.keys() & SAID
            sections["learned"] = {"start": "identity", **quick, **(FREE if free else {}), **given}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learned.start is not None:
            raise BadRecipe("learned.start is of no use to auto, which finds it", next_step="leave it out")

    @property
    def exact(self) -> bool:
        return self.learned.exact

    @property
    def for_merges(self) -> bool:
        return self.learned.for_merges

    def gathers(self, gathering: Gathering) -> bool:
        return gathering.folder is None

    def resolve(self, data: AnyTask | None) -> Self:
        learned = self.learned
        if data is None and learned.loss == "task":
            step = "give a --task, or leave the loss out"
            raise BadRecipe("learned.loss cannot be task without one", found="no task", next_step=step)
        return replace(self, learned=replace(learned, loss="agreement") if data is None else learned.resolve(data))

    def suited(self, form: Checkpoint) -> Self:
        from onebasin.moving.stacks import free_gains
        from onebasin.tasks.task import LANGUAGE, head_of

        learned, usual = self.learned, Learned(start=None, **MODEST)
        if learned.learn != FREE["learn"]:
            return self
        if head_of(form) != LANGUAGE:
            learned = replace(learned, **{x: getattr(usual, x) for x in FREE if getattr(learned, x) == FREE[x]})
        elif not free_gains(form.spec):
            learned = replace(learned, learn=tuple(x for x in learned.learn if x != "gains"))
        return replace(self, learned=learned)

    def check(self, models: Sequence[Checkpoint]) -> None:
        for method in (self.weight, self.learned):
            method.check(models)

    def stages(self, spec: ModelSpec, inputs: Inputs | None) -> dict[str, Load]:
        parts, inputs = (self.weight, self.activation, self.learned), inputs or _to_make_up(spec)
        return {name: load for part in parts for name, load in part.stages(spec, inputs).items()}

    def why_canonical(self, spec: ModelSpec) -> str | None:
        return self.learned.why_canonical(spec)

    def to_measure_on(self, data: AnyTask) -> tuple[AnyTask, str]:
        return self.split(data)[1], CHOSE

    def split(self, data: AnyTask) -> tuple[Training, AnyTask]:
        return _split(data)

    def run(self, ensemble: Ensemble, data: AnyTask | None, job: Job) -> Aligned:
        """Match both ways, learn from the better, keep the best."""
        from onebasin.landscape.contest import Contest
        from onebasin.match.many import as_they_are

        if data is None:
            job.tick("synthetic inputs")
        inputs = data or _made_up(ensemble.models, self.learned.seed, job.device)
        learned = self.learned.resolve(inputs)
        rest, held = _split(inputs)
        learned = replace(learned, batch=min(learned.batch, len(rest)))
        agreement = learned.loss == "agreement"
        contest = Contest(ensemble, held, agreement=agreement, device=job.device, tick=job.tick)
        contest.enter("no alignment", as_they_are(ensemble))
        contest.enter("weights", self.weight.run(ensemble, None, job))
        contest.enter("activations", self.activation.run(ensemble, inputs, replace(job, batch_size=50)))
        try:
            contest.enter("learning", learned.refine(contest.best, rest, held, job))
        except Diverged as error:
            warnings.warn(f"learning is left out: {error.what}", stacklevel=2)
        seen = f"the models made up {len(inputs)} inputs" if data is None else f"given {inputs.name}"
        return contest.result(seen)


def _split(inputs: AnyTask) -> tuple[Training, AnyTask]:
    """(what to learn from, what is held back)."""
    from onebasin.tasks import training

    return training(inputs).split(max(1, round(HELD * len(inputs))))


def _to_make_up(spec: ModelSpec) -> Inputs:
    """How many inputs are made up on a CPU, and how large they are."""
    from onebasin.spec import Images

    kind = spec.reads
    if isinstance(kind, Images):
        return Inputs(PICTURES, tokens_of(spec, kind.width))
    return Inputs(TEXTS, min(LONGEST, kind.positions) if kind is not None else LONGEST)


def _made_up(models: Sequence[Checkpoint], seed: int, device: torch.device) -> Task:
    from onebasin.spec import Images
    from onebasin.tasks import synthetic_task

    few = PICTURES if isinstance(models[0].spec.reads, Images) else TEXTS
    return synthetic_task(models, samples=few if device.type == "cpu" else None, seed=seed, device=device)
