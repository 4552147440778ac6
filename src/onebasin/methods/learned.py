"""The method `learned`: the loss between the models refines the maps that another method found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from onebasin.ensemble.work import Load, learning_step, validation
from onebasin.errors import BadRecipe
from onebasin.events import Callback, Callbacks, Step
from onebasin.learn.options import LearnedMatching
from onebasin.match.options import Gathering
from onebasin.methods.activation import Activation
from onebasin.methods.method import CHOSE, HELD, Inputs, Job, Method, Tick, held_back
from onebasin.papers.options import PaperLearning

if TYPE_CHECKING:
    from onebasin.checkpoint import Checkpoint
    from onebasin.ensemble.aligned import Aligned
    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.ensemble.memory import Work
    from onebasin.spec import ModelSpec
    from onebasin.tasks import AnyTask, Training

SQUARES = 2**30  # latents of permutations, at most
LATENT = 16  # bytes of a latent: itself, its gradient and two moments of the optimiser
SOFT = {"learn": ["residual", "qk", "ov", "heads", "units"], "paper": {"permutations": "soft"}}


@dataclass(frozen=True)
class Learned(LearnedMatching, Method):
    """Gradient descent on the maps, from `start` (None for the models as they are); the weights stay frozen."""

    name: ClassVar[str] = "learned"
    summary: ClassVar[str] = "lowers the loss between the models by gradient descent on the maps, with a --task"
    needs: ClassVar[Literal["nothing", "inputs"]] = "inputs"
    learns: ClassVar[bool] = True
    names: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "dual": ("learned, and both models move", {"two_sided": True}),
        "soft": ("learned with the first paper's soft permutations, which are not exact", SOFT),
    }

    start: Method | None = field(default_factory=Activation)
    paper: PaperLearning = field(default_factory=PaperLearning)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.two_sided and self.paper.permutations == "soft":
            step = "learn one side, or keep permutations frozen or straight-through"
            raise BadRecipe("paper.permutations cannot be soft with two sides: they have no inverse", next_step=step)
        if self.paper.residual == "permutation" and self.paper.permutations == "frozen":
            step = "set paper.permutations to straight-through or soft"
            raise BadRecipe("paper.residual cannot be permutation while permutations are frozen", next_step=step)
        if self.paper.law is not None and self.law != "auto":
            raise BadRecipe("paper.law takes the place of law", found=self.law, next_step="leave one of them out")

    @property
    def exact(self) -> bool:
        return self.paper.permutations != "soft" and not self.paper.scale  # norms see a scale through their eps

    @property
    def for_merges(self) -> bool:
        return "shares" in self.learn

    def gathers(self, gathering: Gathering) -> bool:
        return self.start is not None

    def resolve(self, data: AnyTask | None) -> Self:
        from onebasin.landscape.teacher import check_labelled

        if data is None:
            return self
        chosen = self.for_task(data)
        if chosen.loss == "task":
            check_labelled(data)
        return chosen

    def check(self, models: Sequence[Checkpoint]) -> None:
        from onebasin.paths.laws import law_for

        if self.start is not None:
            self.start.check(models)
        law_for(self.law if self.paper.law is None else self.paper.law, len(models))
        if self.paper.permutations != "frozen":
            check_squares(self, models[0].spec, len(models))

    def work(self, spec: ModelSpec) -> Work:
        from_weights = self.start is None or self.start.needs == "nothing"
        return "learn by blocks" if from_weights and self.by_blocks(spec) else "learn"

    def stages(self, spec: ModelSpec, inputs: Inputs | None) -> dict[str, Load]:
        assert inputs is not None
        before = {} if self.start is None else self.start.stages(spec, inputs)
        tokens = self.batch * self.accumulate * inputs.tokens
        step = learning_step(spec, tokens, moves=1 + self.two_sided, again=self.by_blocks(spec))
        held = min(HELD, inputs.samples // 10) * inputs.tokens
        seen = validation(spec, held) * (1 + self.steps / self.eval_every)
        return {**before, "learning": step * self.steps + seen}

    def why_canonical(self, spec: ModelSpec) -> str | None:
        from onebasin.learn.learning import why_canonical

        return why_canonical(spec, self)

    def to_measure_on(self, data: AnyTask) -> tuple[AnyTask, str]:
        return self.split(data)[1], CHOSE

    def run(self, ensemble: Ensemble, data: AnyTask | None, job: Job) -> Aligned:
        """Match by the start, then learn."""
        from onebasin.match.many import as_they_are
        from onebasin.tasks import training

        assert data is not None
        start = as_they_are(ensemble) if self.start is None else self.start.run(ensemble, data, job)
        return self.refine(start, data, held_back(training(data)), job)

    def refine(self, start: Aligned, data: Training, held: AnyTask | int, job: Job) -> Aligned:
        """Learn from `start` on; `held` is what validates, or how many samples of the data to hold back for it."""
        from onebasin.learn.learning import learn
        from onebasin.papers.strategies import variation_of

        return learn(
            start, data, held, self, variation_of(self.paper, self.seed), device=job.device, folder=job.state,
            told=Callbacks([Shown(job.tick), job.told]),
        )  # fmt: skip


@dataclass(frozen=True)
class Shown(Callback):
    """Steps of learning as progress."""

    tick: Tick

    def on_step(self, step: Step) -> None:
        self.tick(f"learning: {step}", step.step, step.steps)


def check_squares(options: LearnedMatching, spec: ModelSpec, models: int) -> None:
    """Refuse to learn the order of more units than fit: n of them have n² latents, in every layer of a moving model."""
    sizes = [x.size for name, x in spec.spaces.items() if x.base is None and name not in spec.streams]
    numbers = sum(size**2 for size in sizes) * (models - (not options.two_sided)) * ("units" in options.learn)
    if numbers > SQUARES:
        raise BadRecipe(
            "paper.permutations cannot learn the order of so many units: n of them have n² latents",
            expected=f"at most {SQUARES * LATENT / 1e9:.0f} GB for them, their gradients and the optimiser",
            found=f"{numbers * LATENT / 1e9:.0f} GB, for layers of up to {max(sizes):,} units",
            next_step="leave units out of `learn`, or keep permutations frozen",
        )
