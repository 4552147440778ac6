"""The recipe of each verb: everything a run depends on.  The fields are the keys of a recipe file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from onebasin.errors import BadRecipe
from onebasin.learn import LearnedMatching
from onebasin.match import ActivationMatching, WeightMatching
from onebasin.recipes.schema import within

Method = Literal["weight", "activation", "learned", "dual", "soft", "auto"]
Start = Literal["weight", "activation", "identity"]
Device = Literal["auto", "cpu", "cuda"]
Dtype = Literal["float64", "float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class Model:
    """A checkpoint folder, or a Hub id with a branch, tag or commit."""

    path: str
    revision: str | None = None


@dataclass(frozen=True)
class Task:
    """Data as `load_task` names them; as many samples as there are when no number is given."""

    data: str
    samples: int | None = None
    length: int | None = None
    batch_size: int = 64

    def __post_init__(self) -> None:
        within("task.batch_size", self.batch_size, 1)


@dataclass(frozen=True)
class Folder:
    """Where results go."""

    out: str | None = None


@dataclass(frozen=True)
class Write(Folder):
    """How a checkpoint is written: by default in the dtypes of the inputs."""

    dtype: Dtype | None = None
    max_shard_size: str = "5GB"


@dataclass(frozen=True)
class WriteAligned(Write):
    """`mergekit` adds a recipe of that tool for the average."""

    mergekit: bool = False


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
    """Two models, and how the second is brought into the basis of the first.

    `matching` are the options of weight matching, `activation` those of activation matching; `start` is what learning
    begins with, and `learn` are its options.
    """

    models: tuple[Model, Model]
    method: Method = "weight"
    start: Start | None = None
    matching: WeightMatching | None = None
    activation: ActivationMatching | None = None
    learn: LearnedMatching | None = None
    task: Task | None = None
    device: Device = "auto"

    def __post_init__(self) -> None:
        if self.task is None and self.method not in ("weight", "auto"):
            step = "give the data: --task, or task.data in the recipe"
            raise BadRecipe("task is missing", expected=f"inputs for the method {self.method}", next_step=step)
        for section in SECTIONS:
            if getattr(self, section) is not None and section not in USED[self.method]:
                step = "leave it out, or choose another method"
                raise BadRecipe(f"{section} is of no use to the method {self.method}", next_step=step)


@dataclass(frozen=True)
class Align(Aligning):
    """B in the basis of A."""

    verb: ClassVar[str] = "align"
    write: WriteAligned = WriteAligned()


@dataclass(frozen=True)
class Merge(Aligning):
    """(1 − weight) A + weight B in the basis of A."""

    verb: ClassVar[str] = "merge"
    weight: float = 0.5
    write: Write = Write()

    def __post_init__(self) -> None:
        super().__post_init__()
        within("weight", self.weight, 0, 1)


@dataclass(frozen=True)
class Barrier:
    """Loss and metric on the path between A and B as they are."""

    verb: ClassVar[str] = "barrier"
    models: tuple[Model, Model]
    task: Task
    path: Literal["factor", "circuit"] = "factor"
    points: int = 11
    device: Device = "auto"
    write: Folder = Folder()

    def __post_init__(self) -> None:
        within("points", self.points, 2)


Recipe = Align | Merge | Barrier
VERBS: dict[str, type[Recipe]] = {kind.verb: kind for kind in (Align, Merge, Barrier)}
