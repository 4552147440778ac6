"""The sections that recipes share: models, data, where results go, how many models come together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from onebasin.errors import BadRecipe
from onebasin.recipes.schema import within
from onebasin.universe.matching import ROUNDS, TOL

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


@dataclass(frozen=True)
class Gathering:
    """How more than two models come together: the options of `match_universe`.

    `folder` is a universe that is finished: models that it does not know are added, with one alignment each.
    """

    rounds: int = ROUNDS
    tol: float = TOL
    folder: str | None = None

    def __post_init__(self) -> None:
        within("universe.rounds", self.rounds, 1)
        within("universe.tol", self.tol, 0)


def check_models(models: tuple[Model, ...]) -> None:
    """Refuse less than two."""
    if len(models) < 2:
        found = ", ".join(model.path for model in models) or "none"
        step = "name them one after the other: A B"
        raise BadRecipe("it takes two models or more", expected="2 or more models", found=found, next_step=step)
