"""Everything that can be known of a run before it starts: its inputs checked, and what it will take and write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from onebasin.aligning import METHODS, check_pair, in_one_gauge
from onebasin.checkpoint import DTYPES, Checkpoint, check_output, shards
from onebasin.errors import BadRecipe
from onebasin.inspection import FLOAT64, describe
from onebasin.landscape import Simplex, path_between, pick_device
from onebasin.learn.laws import law_for
from onebasin.learn.learned import why_canonical
from onebasin.learn.teacher import check_predicts
from onebasin.recipes.choice import decided
from onebasin.recipes.recipe import Align, Barrier, Merge, Recipe
from onebasin.report.card import name_of
from onebasin.report.certificate import gauge_words
from onebasin.tasks import Task, load_task
from onebasin.universe import common_forms, load_universe
from onebasin.universe.universe import called
from onebasin.widening.pair import one_size
from onebasin.widening.widen import to_one_size


class Tick(Protocol):
    """Told what is being done, and how much of it is."""

    def __call__(self, step: str, done: float = 0, total: float = 0) -> None: ...


def silent(step: str, done: float = 0, total: float = 0) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Plan:
    """Checked models and the data; `writes` maps folders inside the output to bytes of weights.

    `recipe` has a method, and `because` says why where none was named.  `memory` is about how many bytes it takes.
    """

    recipe: Recipe
    models: tuple[Checkpoint, ...]
    data: Task | None
    device: torch.device
    gauge: str | None = None
    writes: Mapping[str, int] = field(default_factory=dict)
    memory: int = 0
    because: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """What `--dry-run` prints, as plain data."""
        recipe = self.recipe
        facts: dict[str, Any] = {
            "verb": recipe.verb,
            "models": [name_of(model.path) for model in recipe.models],
            "class": self.models[0].spec.architecture,
            "device": str(self.device),
            "task": None if self.data is None else {"name": self.data.name, **self.data.about},
            "out": recipe.write.out,
        }
        if isinstance(recipe, Barrier):
            return {**facts, "path": recipe.path, "points": recipe.points}
        return {**facts, "method": recipe.method, "because": self.because, "gauge": self.gauge,
                "writes": dict(self.writes), "memory": self.memory}  # fmt: skip


def prepare(recipe: Recipe, tick: Tick = silent, *, opened: Sequence[Checkpoint] | None = None) -> Plan:
    """Check all inputs of a run, the output folder included.  Writes nothing.

    `opened` are the models where they are open already; then the output folder may be chosen later.
    """
    device = pick_device(recipe.device)
    if opened is None and recipe.write.out is None and not isinstance(recipe, Barrier):
        raise BadRecipe("write.out is missing", expected="a new folder", next_step="give -o OUT")
    _check_out(recipe, 0)
    models = tuple(opened or (Checkpoint.open(model.path, model.revision) for model in recipe.models))
    for i, model in enumerate(models[1:], 1):
        check_pair(models[0], model, called(i))
    task = recipe.task
    data = load_task(task.data, *models, samples=task.samples, length=task.length) if task else None
    for model in models:
        model.check_values(lambda done, total: tick("checking that every number is finite", done, total))
    if isinstance(recipe, Barrier):
        if len(models) == 2:
            path_between(recipe.path, *models)
        else:
            Simplex(to_one_size(*models))
        return Plan(recipe, models, data, device)
    recipe, because = decided(recipe, models[0].spec, device)
    if recipe.learn is not None:
        check_predicts(models[0])
        law_for(recipe.learn.law, len(models))
    if recipe.universe is not None and recipe.universe.folder is not None:
        load_universe(recipe.universe.folder, models)
    tick("what will be written")
    forms = common_forms(models)
    known = why_canonical(forms[0], recipe.learning())
    written, reason = in_one_gauge(models[0], forms, known)
    parts, code = parts_of(recipe, written, reason), dtype_code(recipe.write.dtype)
    planned = {x: part.planned(code) for x, part in parts.items()}
    for tensors in planned.values():
        shards(tensors, recipe.write.max_shard_size)
    writes = {folder: sum(tensor.nbytes for tensor in tensors) for folder, tensors in planned.items()}
    _check_out(recipe, sum(writes.values()))
    memory = memory_of(models, forms, learns=recipe.method not in METHODS)
    return Plan(recipe, models, data, device, gauge_words(reason), writes, memory, because)


def memory_of(models: Sequence[Checkpoint], forms: Sequence[Checkpoint], *, learns: bool) -> int:
    """Bytes: that of aligning the two largest, in the size they are widened to; learning holds all models at once."""
    sizes = [describe(x) for x in (*models, *(form for form in forms[:1] if not one_size(form.spec, models[0].spec)))]
    more = (len(models) - 2) * FLOAT64 * max(size["parameters"] for size in sizes) if learns else 0
    return more + max(int(size["memory"]["align"]) for size in sizes)


def parts_of(recipe: Align | Merge, models: Sequence[Checkpoint], reason: str | None) -> dict[str, Checkpoint]:
    """Folder inside the output -> checkpoint, for models in one gauge; `reason` is why that is not A's own."""
    if isinstance(recipe, Merge):
        return {"": Simplex(models).at(recipe.shares)}
    if reason is None and len(models) == 2:
        return {"": models[1]}
    return {called(i).lower(): model for i, model in enumerate(models) if i or reason is not None}


def dtype_code(name: str | None) -> str | None:
    """The safetensors code of a dtype's name."""
    return next((code for code, dtype in DTYPES.items() if dtype.name == name), None)


def _check_out(recipe: Recipe, nbytes: int) -> None:
    if recipe.write.out is not None:
        check_output(Path(recipe.write.out), nbytes)
