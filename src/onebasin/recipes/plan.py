"""Everything that can be known of a run before it starts: its inputs checked, and what it will take and write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from onebasin.aligning import check_pair, in_one_gauge, same_form
from onebasin.checkpoint import DTYPES, Checkpoint, check_output, shards
from onebasin.errors import BadRecipe
from onebasin.inspection import describe
from onebasin.landscape import FactorPath, path_between, pick_device
from onebasin.recipes.recipe import Align, Barrier, Merge, Recipe
from onebasin.report.card import name_of
from onebasin.report.certificate import gauge_words
from onebasin.tasks import Task, load_task


class Tick(Protocol):
    """Told what is being done, and how much of it is."""

    def __call__(self, step: str, done: float = 0, total: float = 0) -> None: ...


def silent(step: str, done: float = 0, total: float = 0) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Plan:
    """Two checked models and the data; `writes` maps folders inside the output to bytes of weights."""

    recipe: Recipe
    a: Checkpoint
    b: Checkpoint
    data: Task | None
    device: torch.device
    gauge: str | None
    writes: Mapping[str, int]

    def as_dict(self) -> dict[str, Any]:
        """What `--dry-run` prints, as plain data."""
        recipe = self.recipe
        facts: dict[str, Any] = {
            "verb": recipe.verb,
            "models": [name_of(model.path) for model in recipe.models],
            "class": self.a.spec.architecture,
            "device": str(self.device),
            "task": None if self.data is None else {"name": self.data.name, **self.data.about},
            "out": recipe.write.out,
        }
        if isinstance(recipe, Barrier):
            return {**facts, "path": recipe.path, "points": recipe.points}
        return {**facts, "method": recipe.method, "gauge": self.gauge, "writes": dict(self.writes),
                "memory": describe(self.a)["memory"]["align"]}  # fmt: skip


def prepare(recipe: Recipe, tick: Tick = silent) -> Plan:
    """Check all inputs of a run, the output folder included.  Writes nothing."""
    device = pick_device(recipe.device)
    _check_out(recipe, 0)
    a, b = (Checkpoint.open(model.path, model.revision) for model in recipe.models)
    check_pair(a, b)
    task = recipe.task
    data = load_task(task.data, a, b, samples=task.samples, length=task.length) if task else None
    for end in (a, b):
        end.check_values(lambda done, total: tick("checking that every number is finite", done, total))
    if isinstance(recipe, Barrier):
        path_between(recipe.path, a, b)
        return Plan(recipe, a, b, data, device, None, {})
    tick("what will be written")
    first, second, reason = in_one_gauge(a, *same_form(a, b))
    code = dtype_code(recipe.write.dtype)
    planned = {x: part.planned(code) for x, part in parts_of(recipe, first, second, reason).items()}
    for tensors in planned.values():
        shards(tensors, recipe.write.max_shard_size)
    writes = {folder: sum(tensor.nbytes for tensor in tensors) for folder, tensors in planned.items()}
    _check_out(recipe, sum(writes.values()))
    return Plan(recipe, a, b, data, device, gauge_words(reason), writes)


def parts_of(recipe: Align | Merge, a: Checkpoint, b: Checkpoint, reason: str | None) -> dict[str, Checkpoint]:
    """Folder inside the output -> checkpoint, for two models in one gauge; `reason` is why that is not A's own."""
    if isinstance(recipe, Merge):
        return {"": FactorPath(a, b).at(recipe.weight)}
    return {"": b} if reason is None else {"a": a, "b": b}


def dtype_code(name: str | None) -> str | None:
    """The safetensors code of a dtype's name."""
    return next((code for code, dtype in DTYPES.items() if dtype.name == name), None)


def _check_out(recipe: Recipe, nbytes: int) -> None:
    if recipe.write.out is not None:
        check_output(Path(recipe.write.out), nbytes)
    elif not isinstance(recipe, Barrier):
        raise BadRecipe("write.out is missing", expected="a new folder", next_step="give -o OUT")
