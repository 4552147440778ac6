"""The recipe of each verb: everything a run depends on.  The fields are the keys of a recipe file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from onebasin.errors import BadRecipe
from onebasin.learn import LearnedMatching
from onebasin.match import ActivationMatching, WeightMatching
from onebasin.recipes.schema import within
from onebasin.recipes.sections import Folder, Gathering, Model, Task, Write, WriteAligned, check_models

Method = Literal["weight", "activation", "learned", "dual", "soft", "auto"]
Start = Literal["weight", "activation", "identity"]
Device = Literal["auto", "cpu", "cuda"]

SECTIONS = ("start", "matching", "activation", "learn", "task")
USED: dict[str, tuple[str, ...]] = {  # method -> the sections that it looks at
    "weight": ("matching",),
    "activation": ("activation", "task"),
    "learned": SECTIONS,
    "dual": SECTIONS,
    "soft": SECTIONS,
    "auto": ("learn", "task"),
}


@dataclass(frozen=True)
class Aligning:
    """Two models or more, and how the others are brought into the basis of the first.

    `matching` are the options of weight matching, `activation` those of activation matching; `start` is what learning
    begins with, and `learn` are its options; `universe` is for more than two models.  A method that is not named is
    decided on when the models are known (`onebasin.recipes.choice`).
    """

    models: tuple[Model, ...]
    method: Method | None = None
    start: Start | None = None
    matching: WeightMatching | None = None
    activation: ActivationMatching | None = None
    learn: LearnedMatching | None = None
    universe: Gathering | None = None
    task: Task | None = None
    device: Device = "auto"

    @property
    def gathers(self) -> bool:
        """Whether the models come together in a universe."""
        return len(self.models) > 2 or self.universe is not None

    def learning(self, *, labelled: bool = True) -> LearnedMatching:
        """The options of learning as the method has them; without labels the end points are the teachers."""
        chosen = self.learn or LearnedMatching()
        if self.method == "dual":
            chosen = replace(chosen, two_sided=True)
        if self.method == "soft":
            chosen = replace(chosen, permutations="soft", learn=tuple(dict.fromkeys((*chosen.learn, "heads", "units"))))
        return chosen if labelled else replace(chosen, loss="agreement")

    def __post_init__(self) -> None:
        check_models(self.models)
        self._check_universe()
        if self.task is None and self.method not in ("weight", "auto", None):
            step = "give the data: --task, or task.data in the recipe"
            raise BadRecipe("task is missing", expected=f"inputs for the method {self.method}", next_step=step)
        for section in SECTIONS:
            if self.method and getattr(self, section) is not None and section not in USED[self.method]:
                step = "leave it out, or choose another method"
                raise BadRecipe(f"{section} is of no use to the method {self.method}", next_step=step)

    def _check_universe(self) -> None:
        if self.universe is not None and len(self.models) == 2 and self.universe.folder is None:
            raise BadRecipe("universe is of no use to two models", next_step="leave it out, or give more models")
        if self.universe is not None and self.start == "identity":
            raise BadRecipe("universe is of no use to the start identity", next_step="leave it out, or start otherwise")
        if self.universe is not None and self.universe.folder is not None and self.method == "auto":
            step = "name a method that begins with it: weight, activation or learned"
            raise BadRecipe("universe.folder is of no use to the method auto", next_step=step)


@dataclass(frozen=True)
class Align(Aligning):
    """All other models in the basis of A."""

    verb: ClassVar[str] = "align"
    write: WriteAligned = field(default_factory=WriteAligned)


@dataclass(frozen=True)
class Merge(Aligning):
    """Σ λ_m π_m(θ_m) in the basis of A.

    `weights` has one number for each model, and the shares λ are these divided by their sum; of two models `weight`,
    the share of B, says the same.
    """

    verb: ClassVar[str] = "merge"
    weight: float | None = None
    weights: tuple[float, ...] | None = None
    write: Write = field(default_factory=Write)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight is not None:
            within("weight", self.weight, 0, 1)
        if self.weight is not None and (self.weights is not None or len(self.models) > 2):
            step = "write weights, with one number for each model"
            raise BadRecipe("weight is the share of B, of two models", found=self.weight, next_step=step)
        weights = self.weights or (1.0,)
        if min(weights) < 0 or sum(weights) <= 0 or (self.weights and len(weights) != len(self.models)):
            expected = f"{len(self.models)} numbers, none below 0 and not all 0"
            step = f"give one for each model, like {','.join('1' * len(self.models))}"
            raise BadRecipe("weights do not fit the models", expected=expected, found=weights, next_step=step)

    @property
    def shares(self) -> tuple[float, ...]:
        """λ: the share of every model in the average."""
        if self.weight is not None:
            return 1 - self.weight, self.weight
        weights = self.weights or (1.0,) * len(self.models)
        return tuple(weight / sum(weights) for weight in weights)


@dataclass(frozen=True)
class Barrier:
    """Loss and metric on the path between A and B, or on the simplex of more models, as they are.

    `points` are those on the path, or of three models on a side of the triangle, both ends included.
    """

    verb: ClassVar[str] = "barrier"
    models: tuple[Model, ...]
    task: Task
    path: Literal["factor", "circuit"] = "factor"
    points: int | None = None
    device: Device = "auto"
    write: Folder = field(default_factory=Folder)

    def __post_init__(self) -> None:
        check_models(self.models)
        if self.points is not None:
            within("points", self.points, 2)
        if self.points is not None and len(self.models) > 3:
            step = "leave it out: vertices, middles of all pairs and the centre are measured"
            raise BadRecipe("points is of no use to more than three models", next_step=step)
        if self.path == "circuit" and len(self.models) > 2:
            step = "use the factor path, or measure two models"
            raise BadRecipe("the circuit path is one between two models", found=len(self.models), next_step=step)


Recipe = Align | Merge | Barrier
VERBS: dict[str, type[Recipe]] = {kind.verb: kind for kind in (Align, Merge, Barrier)}
