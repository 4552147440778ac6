"""Everything that can be known of a run before it starts: its inputs checked, and what it will take and write."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from onebasin.checkpoint import Checkpoint, check_output, shards
from onebasin.checkpoint.dtypes import code_of
from onebasin.ensemble.ensemble import Ensemble, check_models
from onebasin.ensemble.memory import check_memory, memory_of, page_work
from onebasin.ensemble.storage import load_universe
from onebasin.ensemble.words import describe_gauge, letter, name_of
from onebasin.ensemble.work import Load, certificate, reading, tokens_of, writing
from onebasin.errors import BadOutput, BadRecipe
from onebasin.labels.pairs import in_one_labelling
from onebasin.methods.method import Inputs, Method, Tick, silent
from onebasin.methods.registry import default_method, read_method
from onebasin.options import write_section
from onebasin.paths import FactorPath, path_between
from onebasin.paths.factor import Paces
from onebasin.processes.devices import for_float64, pick_device
from onebasin.processes.speed import Clock, speed_here
from onebasin.recipes.recipe import Align, Barrier, Merge, Recipe
from onebasin.recipes.samples import Samples, samples_of
from onebasin.tasks import AnyTask, Task, as_task
from onebasin.tasks import parts_of as each_task


@dataclass(frozen=True)
class Plan:
    """Checked models and the data; `writes` maps folders inside the output to bytes of weights.

    `recipe` has a method with all its options decided, and `because` says why where none was named.  `ensemble` holds
    the models in canonical form; measuring takes them as they are.  `memory` is about how many bytes it takes,
    `overwrite` whether an earlier output may be replaced, `notes` what differs between the models and is dealt with.
    `samples` are those that a merge trains and measures on.
    """

    recipe: Recipe
    models: tuple[Checkpoint, ...]
    data: AnyTask | None
    device: torch.device
    ensemble: Ensemble | None = None
    gauge: str | None = None
    writes: Mapping[str, int] = field(default_factory=dict)
    memory: int = 0
    because: str | None = None
    overwrite: bool = False
    notes: tuple[str, ...] = ()
    samples: Samples = field(default_factory=Samples)

    @property
    def alignment(self) -> tuple[Align | Merge, Method]:
        """The recipe of an alignment and its method."""
        assert isinstance(self.recipe, Align | Merge)
        assert self.recipe.method is not None
        return self.recipe, self.recipe.method

    def resting(self) -> AbstractContextManager[None]:
        """Meanwhile weights are read to the device, and rest there as far as there is room."""
        assert self.ensemble is not None
        place = for_float64(self.device)
        return self.ensemble.resting(place, self.alignment[0].memory.room(place, self.ensemble.spec))

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
            "notes": list(self.notes),
        }
        if isinstance(recipe, Barrier):
            return {**facts, "path": recipe.path, "points": recipe.points}
        heal = recipe.heal if isinstance(recipe, Merge) and recipe.heals else None
        takes = {"memory": self.memory, "gpu_memory": self.gpu_memory, "seconds": self.seconds()}
        return {**facts, "method": self.alignment[1].name, "because": self.because, "gauge": self.gauge,
                **({} if heal is None else {"heal": {**write_section(heal), "trainings": self.trainings}}),
                "writes": dict(self.writes), **takes}  # fmt: skip

    @property
    def gpu_memory(self) -> int | None:
        """About how many bytes a GPU needs at least: a page of the models; what is more lets weights rest there."""
        assert self.ensemble is not None
        return page_work(self.ensemble.spec) if self.device.type == "cuda" else None

    def seconds(self, clock: Clock = time.perf_counter) -> dict[str, float]:
        """About how long every stage takes, at the speed of this machine now, by this clock."""
        assert self.ensemble is not None
        spec, method, first = self.ensemble.spec, self.alignment[1], self.models[0].store
        others, nbytes = len(self.models) - 1, sum(model.store.nbytes for model in self.models)
        stages = {
            "reading": reading(nbytes),
            **{name: load * others for name, load in method.stages(spec, self._inputs()).items()},
            "certificate": certificate(spec) * others,
            "writing": sum((writing(spec, written) for written in self.writes.values()), Load()),
        }
        speed = speed_here(self.device, first.folder / next(iter(first.headers.values())).file, clock)
        return {name: load.seconds(speed) for name, load in stages.items()}

    def _inputs(self) -> Inputs | None:
        """How much there is for the method to look at."""
        if self.data is None:
            return None
        tasks = [task for _, task, _ in each_task(self.data) if isinstance(task, Task)]
        length = max(next(iter(task.inputs.values())).shape[-1] for task in tasks)
        return Inputs(len(self.data), tokens_of(self.models[0].spec, length))

    @property
    def trainings(self) -> int:
        """How many models healing trains: the average, and to compare all models and their plain average."""
        recipe = self.recipe
        if not isinstance(recipe, Merge) or recipe.heal is None or not recipe.heals:
            return 0
        return 2 + len(self.models) if recipe.heal.compare else 1


def prepare(
    recipe: Recipe, tick: Tick = silent, *, opened: Sequence[Checkpoint] | None = None, overwrite: bool = False,
    read: Callable[..., AnyTask] = as_task,
) -> Plan:  # fmt: skip
    """Check all inputs of a run, the output folder included.  Writes nothing.

    `opened` are the models where they are open already; then the output folder may be chosen later.  With `overwrite`
    that may be an earlier output.  `read` makes the task of what the recipe calls its data.
    """
    device = pick_device(recipe.device)
    if opened is None and recipe.write.out is None and not isinstance(recipe, Barrier):
        raise BadRecipe("write.out is missing", expected="a new folder", next_step="give -o OUT")
    _check_out(recipe, 0, overwrite)
    models = tuple(opened or (Checkpoint.open(model.path, model.revision) for model in recipe.models))
    notes = tuple(check_models(models))
    models = in_one_labelling(models)
    spare_inputs(recipe, models)
    task = recipe.task
    data = read(task.data, *models, samples=task.samples, length=task.length, weights=task.weights) if task else None
    for model in models:
        with model.store.resting(device):
            model.check_values(lambda done, total: tick("checking that every number is finite", done, total))
    if isinstance(recipe, Barrier):
        path_between(recipe.path, *models)
        return Plan(recipe, models, data, device, overwrite=overwrite, notes=notes)
    return replace(_plan_alignment(recipe, Ensemble.of_checked(models), data, device, tick, overwrite), notes=notes)


def _plan_alignment(
    recipe: Align | Merge, ensemble: Ensemble, data: AnyTask | None, device: torch.device, tick: Tick, overwrite: bool
) -> Plan:
    models, method, because = ensemble.models, recipe.method, None
    if method is None:
        name, because = default_method(models[0].spec, task=data is not None)
        method = read_method(name, {}, device, merges=isinstance(recipe, Merge))
    method.check(models)
    method = method.resolve(data).suited(ensemble.forms[0])
    recipe = replace(recipe, method=method)
    check_average(recipe)
    samples = samples_of(data, recipe, method) if isinstance(recipe, Merge) else Samples()
    if recipe.universe is not None and recipe.universe.folder is not None:
        load_universe(recipe.universe.folder, models)
    tick("what will be written")
    written, reason = ensemble.in_one_gauge(ensemble.forms, method.why_canonical(ensemble.spec))
    parts, code = parts_of(recipe, written, reason), code_of(recipe.write.dtype)
    planned = {x: part.planned(code) for x, part in parts.items()}
    for tensors in planned.values():
        shards(tensors, recipe.write.max_shard_size)
    writes = {folder: sum(tensor.nbytes for tensor in tensors) for folder, tensors in planned.items()}
    _check_out(recipe, sum(writes.values()), overwrite)
    memory = memory_of(ensemble.spec, method.work(ensemble.spec), len(ensemble))
    check_memory(memory)
    recipe.memory.check(for_float64(device), ensemble.spec, memory)
    gauge = describe_gauge(reason)
    return Plan(recipe, models, data, device, ensemble, gauge, writes, memory, because, overwrite, samples=samples)


def parts_of(
    recipe: Align | Merge, models: Sequence[Checkpoint], reason: str | None, paces: Sequence[Paces] = ()
) -> dict[str, Checkpoint]:
    """Folder inside the output -> checkpoint, for models in one gauge; `reason` is why that is not A's own."""
    if isinstance(recipe, Merge):
        return {"": FactorPath(*models, paces=paces).at(recipe.lambdas)}
    if reason is None and len(models) == 2:
        return {"": models[1]}
    return {letter(i).lower(): model for i, model in enumerate(models) if i or reason is not None}


def check_average(recipe: Align | Merge) -> None:
    """Refuse to write models alone where what is learned belongs to their average."""
    if isinstance(recipe, Align) and recipe.write.out is not None and recipe.method and recipe.method.for_merges:
        step = "merge the models, or leave shares out of learned.learn"
        raise BadRecipe("align writes no average, and the shares of tensors belong to one", next_step=step)


def _check_out(recipe: Recipe, nbytes: int, overwrite: bool) -> None:
    if recipe.write.out is not None:
        check_output(Path(recipe.write.out), nbytes, overwrite=overwrite)


def spare_inputs(recipe: Recipe, models: Sequence[Checkpoint]) -> None:
    """Refuse an output folder that holds an input: it would be gone with what is overwritten."""
    read = [model.store.folder for model in models]
    if isinstance(recipe, Align | Merge) and recipe.universe is not None and recipe.universe.folder is not None:
        read.append(Path(recipe.universe.folder))
    if recipe.task is not None:
        recipe.task.placed(lambda name: read.append(Path(name)) or name)  # type: ignore[func-returns-value]
    for path in read if recipe.write.out is not None else ():
        if path.resolve().is_relative_to(Path(str(recipe.write.out)).resolve()):
            step = "give another output folder"
            raise BadOutput("The output would replace an input", found=path, next_step=step)
