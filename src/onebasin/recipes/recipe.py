"""The recipe of each verb: everything a run depends on.  The fields are the keys of a recipe file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

from onebasin.errors import BadRecipe
from onebasin.healing.options import Healing
from onebasin.match.options import Gathering
from onebasin.match.room import Memory
from onebasin.methods.method import BATCH, Method
from onebasin.options import Count, Options, Positive, Share, Size, Within
from onebasin.processes.devices import Device
from onebasin.tasks import on_files

Dtype = Literal["float64", "float32", "bfloat16", "float16"]
NAME = re.compile(r"[\w.-]+")  # of one of several tasks


@dataclass(frozen=True)
class Model(Options):
    """A checkpoint folder, or a Hub id with a branch, tag or commit."""

    path: str
    revision: str | None = None


@dataclass(frozen=True)
class Task(Options):
    """Data as `load_task` names them, or several by names of their own; `weights` say how much each of these counts.

    Of each there are as many `samples` as there are when no number is given.
    """

    data: str | dict[str, str]
    weights: dict[str, Positive] | None = None
    samples: int | None = None
    length: int | None = None
    batch_size: Count = BATCH

    def __post_init__(self) -> None:
        super().__post_init__()
        names = self.data if isinstance(self.data, dict) else {}
        if isinstance(self.data, dict) and (not names or not all(NAME.fullmatch(name) for name in names)):
            step = "name every task by letters, digits, dots and dashes"
            raise BadRecipe("data has the wrong names", expected="NAME: TASK", found=list(names), next_step=step)
        if odd := sorted(set(self.weights or {}) - set(names)):
            step = "give weights to several tasks, by their names"
            raise BadRecipe(f"weights.{odd[0]} is no task", expected=list(names), found=odd[0], next_step=step)

    def placed(self, place: Callable[[str], str]) -> Task:
        """The same data with other names for their files and folders."""
        if isinstance(self.data, str):
            return replace(self, data=on_files(self.data, place))
        return replace(self, data={name: on_files(one, place) for name, one in self.data.items()})


@dataclass(frozen=True)
class Folder(Options):
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


@dataclass(frozen=True)
class Aligning(Options):
    """Two models or more, and how the others are brought into the basis of the first.

    `method` is one with its options, or none: then it is decided on when the models are known.  `universe` is for more
    than two models.
    """

    models: tuple[Model, ...]
    method: Method | None = None
    universe: Gathering | None = None
    task: Task | None = None
    device: Device = "auto"
    memory: Memory = field(default_factory=Memory)

    @property
    def learns(self) -> bool:
        """Whether several processes have something to share; the method that is chosen for a model may learn."""
        return self.method is None or self.method.learns

    def __post_init__(self) -> None:
        super().__post_init__()
        check_models(self.models)
        if self.universe is not None and len(self.models) == 2 and self.universe.folder is None:
            raise BadRecipe("universe is of no use to two models", next_step="leave it out, or give more models")
        if self.method is None:
            return
        if self.task is None and self.method.needs != "nothing":
            step = "give the data: --task, or task.data in the recipe"
            raise BadRecipe("task is missing", expected=f"inputs for the method {self.method.name}", next_step=step)
        if self.universe is not None and not self.method.gathers(self.universe):
            step = "leave it out, or begin with a match: weight, activation or learned"
            raise BadRecipe(f"universe is of no use to the method {self.method.name} here", next_step=step)


@dataclass(frozen=True)
class Align(Aligning):
    """All other models in the basis of A."""

    verb: ClassVar[str] = "align"
    write: WriteAligned = field(default_factory=WriteAligned)

    def __post_init__(self) -> None:
        super().__post_init__()
        method = self.method
        if method is not None and self.task is not None and method.needs == "nothing" and not method.learns:
            step = "leave it out, or choose another method; `onebasin merge` measures its result on it"
            raise BadRecipe(f"task is of no use to the method {method.name}", next_step=step)


@dataclass(frozen=True)
class Merge(Aligning):
    """Σ λ_m π_m(θ_m) in the basis of A, measured on the task where there is one.

    `shares` has one number for each model, and λ are these divided by their sum; of two models `share`, that of B, says
    the same, or "best": that of the lowest loss on samples held back.  `heal` trains the average on the task.
    """

    verb: ClassVar[str] = "merge"
    share: Share | Literal["best"] | None = None
    shares: tuple[Size, ...] | None = None
    heal: Healing | None = None
    write: Write = field(default_factory=Write)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share is not None and (self.shares is not None or len(self.models) > 2):
            step = "write shares, with one number for each model"
            raise BadRecipe("share is that of B, of two models", found=self.share, next_step=step)
        if self.shares is not None and (len(self.shares) != len(self.models) or sum(self.shares) <= 0):
            expected = f"{len(self.models)} numbers, none below 0 and not all 0"
            step = f"give one for each model, like {','.join('1' * len(self.models))}"
            raise BadRecipe("shares do not fit the models", expected=expected, found=self.shares, next_step=step)

        if self.task is None and (self.share == "best" or self.heals):
            name = "heal" if self.heals else "share best"
            step = "give the data: --task, or task.data in the recipe"
            raise BadRecipe(f"{name} needs a task", expected="data with labels", next_step=step)

    @property
    def heals(self) -> bool:
        """Whether the average is trained at all."""
        return self.heal is not None and self.heal.steps > 0

    @property
    def learns(self) -> bool:
        return super().learns or self.heals

    @property
    def lambdas(self) -> tuple[float, ...]:
        """λ: the share of every model in the average; all alike where the best one is not known yet."""
        if isinstance(self.share, float):
            return 1 - self.share, self.share
        given = self.shares or (1.0,) * len(self.models)
        return tuple(share / sum(given) for share in given)


@dataclass(frozen=True)
class Barrier(Options):
    """Loss and metric on the path between A and B, or on the simplex of more models, as they are.

    `points` are those on the path, or of three models on a side of the triangle, both ends included.
    """

    verb: ClassVar[str] = "barrier"
    learns: ClassVar[bool] = False
    models: tuple[Model, ...]
    task: Task
    path: Literal["factor", "circuit"] = "factor"
    points: Annotated[int, Within(2, 1000)] | None = None
    device: Device = "auto"
    write: Folder = field(default_factory=Folder)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_models(self.models)
        if self.points is not None and len(self.models) > 3:
            step = "leave it out: vertices, middles of all pairs and the centre are measured"
            raise BadRecipe("points is of no use to more than three models", next_step=step)
        if self.path == "circuit" and len(self.models) > 2:
            step = "use the factor path, or measure two models"
            raise BadRecipe("the circuit path is one between two models", found=len(self.models), next_step=step)


def check_models(models: tuple[Model, ...]) -> None:
    """Refuse less than two."""
    if len(models) < 2:
        found = ", ".join(model.path for model in models) or "none"
        step = "name them one after the other: A B"
        raise BadRecipe("it takes two models or more", expected="2 or more models", found=found, next_step=step)


Recipe = Align | Merge | Barrier
VERBS: dict[str, type[Recipe]] = {kind.verb: kind for kind in (Align, Merge, Barrier)}
