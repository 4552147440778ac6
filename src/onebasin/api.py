"""The verbs for Python: what the command line does, on folders, Hub ids, open checkpoints and live models.

Each builds the recipe that the command line would build and follows it: both give the same tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from onebasin import recipes
from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.sources import Source, live, opened
from onebasin.ensemble import inspection
from onebasin.ensemble.aligned import Aligned
from onebasin.ensemble.merged import Merged
from onebasin.errors import OnebasinError
from onebasin.events import Callback, Callbacks
from onebasin.events.trackers import tracker
from onebasin.landscape import Scores, Surface
from onebasin.methods.method import Tick, silent
from onebasin.options import read_section
from onebasin.processes.devices import pick_device
from onebasin.processes.ranks import rank
from onebasin.processes.world import World, processes
from onebasin.recipes.comparing import compare
from onebasin.recipes.document import FORMAT
from onebasin.recipes.notes import keep_warnings
from onebasin.recipes.plan import spare_inputs
from onebasin.report.weights import inspect_weights, open_any
from onebasin.tasks import AnyTask, Measure, Task, as_task
from onebasin.tasks.load import OWN
from onebasin.verification import verify as verification
from onebasin.widening import widen as widening

__all__ = ["Aligned", "Source", "align", "barrier", "evaluate", "inspect", "live", "merge", "verify", "widen"]

Section: TypeAlias = Mapping[str, Any]
"""A section of a recipe: its keys are those of the recipe file."""
Data: TypeAlias = "str | Path | Task | Mapping[str, Any] | Iterable[Any]"
"""What to align or to measure on: text as after `--task`, or data of your own (`onebasin.tasks.as_task`); or a mapping
of names to several of these."""
Weights: TypeAlias = Mapping[str, float] | None
"""How much each of several tasks counts, by its name; 1 where none is given."""


def align(
    a: Source, b: Source, *others: Source, method: str | None = None, task: Data | None = None,
    samples: int | None = None, length: int | None = None, columns: Mapping[str, str] | None = None,
    loss: Measure | None = None, metrics: Mapping[str, Measure] | None = None, task_weights: Weights = None,
    device: str = "auto", tick: Tick = silent, callbacks: Iterable[Callback | str] = (), **sections: Section,
) -> Aligned:  # fmt: skip
    """Bring `b` and all others into the basis of `a`, each by one map; what they compute stays.

    `method`, `task`, `samples` and `length` are the options of `onebasin align`; `sections` are those of a recipe, such
    as `weight={"sweeps": 5}`, `learned={"steps": 500, "start": "weight"}`.  `callbacks` are told how learning goes:
    objects of `Callback`, "tensorboard:FOLDER", "wandb:PROJECT".  Nothing is written until `.save`.

    The task may also be a `DataLoader`, a list of batches, a `datasets.Dataset` or a `Task`, with a `loss` and
    `metrics` of your own (`onebasin.tasks.as_task`).

    Examples:
        >>> pair = onebasin.align("A", "B", method="weight")
        >>> pair.merged().save("merged")
    """
    own = _Own(task, columns, loss, metrics, task_weights)
    document = _given(method=method, task=own.section(samples, length), device=device, **sections)
    plan, aligned, made = _carried_out("align", (a, b, *others), document, own, tick, callbacks)
    return replace(aligned, writer=partial(_write, plan, made=made))


def _carried_out(
    verb: str, sources: Sequence[Source], document: dict[str, Any], own: _Own, tick: Tick,
    callbacks: Iterable[Callback | str],
) -> tuple[recipes.Plan, Aligned, recipes.Merging]:  # fmt: skip
    """All of a run but the writing."""
    told = Callbacks([tracker(one) if isinstance(one, str) else one for one in callbacks] if not rank() else ())
    with keep_warnings() as notes:
        plan = _prepared(verb, sources, document, own, tick)
        with processes(plan.device) if plan.recipe.learns else nullcontext(World()) as world:
            plan, aligned, made = recipes.complete(plan, recipes.align(plan, None, tick, told), world, tick)
        return plan, recipes.certify(plan, aligned, notes, tick, made), made


def merge(
    models: Sequence[Source], *, share: float | str | None = None, shares: Sequence[float] | None = None,
    method: str | None = None, task: Data | None = None, samples: int | None = None, length: int | None = None,
    columns: Mapping[str, str] | None = None, loss: Measure | None = None,
    metrics: Mapping[str, Measure] | None = None, task_weights: Weights = None, heal: Section | None = None,
    device: str = "auto", tick: Tick = silent, callbacks: Iterable[Callback | str] = (), **sections: Section,
) -> Merged:  # fmt: skip
    """Align all models with the first, then average: one stock checkpoint.  The other options are those of `align`.

    `share` is that of B, of two models; "best" is that of the lowest loss on samples of the task that are held back.
    `heal` trains the average on the task: `heal={"steps": 300}`.

    `.save` writes what `onebasin merge` writes: with labels in the task the file is measured beside its models, their
    plain average and their ensemble, and a merge that is not recommended is warned of.

    Examples:
        >>> onebasin.merge(["A", "B", "C"], shares=[2, 1, 1], method="weight").save("merged")
    """
    if isinstance(models, str | Path) or len(models) < 2:
        step = "merge([A, B]): one list of all models"
        raise OnebasinError("A merge takes a list of models", expected="2 or more", found=models, next_step=step)
    own = _Own(task, columns, loss, metrics, task_weights)
    document = _given(
        method=method, task=own.section(samples, length), device=device, share=share,
        shares=None if shares is None else list(shares), heal=heal, **sections,
    )  # fmt: skip
    plan, aligned, made = _carried_out("merge", models, document, own, tick, callbacks)
    return Merged.of(made.parts(plan, aligned)[""], partial(_write, plan, aligned, made=made))


def _write(
    plan: recipes.Plan, aligned: Aligned, folder: Path, dtype: str | None, overwrite: bool = False, *,
    made: recipes.Merging, **options: Any,
) -> Mapping[str, Any]:  # fmt: skip
    recipe, _ = plan.alignment
    write = replace(recipe.write, out=str(folder), dtype=dtype, **options)  # type: ignore[arg-type]
    plan = replace(plan, recipe=replace(recipe, write=write), overwrite=overwrite)  # type: ignore[arg-type]
    if overwrite:
        spare_inputs(plan.recipe, plan.models)
    if write.dtype != recipe.write.dtype:
        aligned = recipes.with_files(plan, aligned, made)
    return recipes.write(plan, aligned, made=made)


def barrier(
    a: Source, b: Source, *others: Source, task: Data, samples: int | None = None, length: int | None = None,
    columns: Mapping[str, str] | None = None, loss: Measure | None = None,
    metrics: Mapping[str, Measure] | None = None, task_weights: Weights = None, batch_size: int | None = None,
    path: str = "factor", points: int | None = None, device: str = "auto", tick: Tick = silent,
) -> Surface:  # fmt: skip
    """Loss and metric between models as they are: a `Curve` between two, a `Surface` over the simplex of more.

    Without labels the loss is how far the models between are from what the end points say, each by its share.

    Examples:
        >>> onebasin.barrier("A", pair.models[1], task="text:valid.txt").barrier
    """
    own = _Own(task, columns, loss, metrics, task_weights)
    section = own.section(samples, length, batch_size)
    document = _given(task=section, path=path, points=points, device=device)
    plan = _prepared("barrier", (a, b, *others), document, own, tick)
    recipe = plan.recipe
    assert isinstance(recipe, recipes.Barrier)
    return recipes.landscape(plan, recipe, tick)


def evaluate(
    *models: Source, task: Data, ensemble: bool = False, samples: int | None = None, length: int | None = None,
    columns: Mapping[str, str] | None = None, loss: Measure | None = None,
    metrics: Mapping[str, Measure] | None = None, task_weights: Weights = None, batch_size: int | None = None,
    device: str = "auto", tick: Tick = silent,
) -> Scores:  # fmt: skip
    """Loss and metric of models beside each other, with standard errors; with `ensemble` also of all together.

    Classes may differ as long as the task fits each; an ensemble needs the same outputs, and averages probabilities.

    Examples:
        >>> scores = onebasin.evaluate("A", "B", ensemble=True, task="text:valid.txt")
        >>> scores.rows["ensemble"].loss
    """
    own = _Own(task, columns, loss, metrics, task_weights)
    data = read_section(recipes.recipe.Task, own.section(samples, length, batch_size) or {})
    return compare(models, data, own.read, ensemble=ensemble, device=pick_device(device), tick=tick)


def inspect(a: Source, b: Source | None = None, *, weights: bool = False, tick: Tick = silent) -> inspection.Inspection:
    """The symmetries of a model; with `b`, what stands between the two.  Reads headers only.

    With `weights`, also reads the weights of both: `.verdict` says "one basin", "between" or "independent", and
    `.report["weights"]` how alike every layer is as stored, and some after a quick match.

    Examples:
        >>> onebasin.inspect("A", "B").ready
        >>> onebasin.inspect("A", "B", weights=True).verdict
    """
    if not weights:
        return inspection.inspect(opened(a), None if b is None else opened(b))
    if b is None:
        raise OnebasinError(
            "weights=True compares two models", expected=2, found=1, next_step="inspect(A, B, weights=True)"
        )
    one, two = (open_any(x) if isinstance(x, str | Path) else opened(x) for x in (a, b))
    return inspect_weights(one, two, tick)


def verify(source: Source, *, seed: int = 0, tick: Tick = silent) -> verification.Verification:
    """How far random symmetries of a model move its outputs; `.holds` if they do not.

    Examples:
        >>> assert onebasin.verify("A").holds
    """
    return verification.verify(opened(source), seed=seed, tick=tick)


def widen(source: Source, target: Mapping[str, Any] | Any, *, extra: str = "zero") -> Checkpoint:
    """The same function as a larger model; `target` names sizes of its config.json, or is a whole configuration.

    Additional units and heads do nothing ("zero"), or are copies that share their outputs ("split").

    Examples:
        >>> onebasin.widen("A", {"intermediate_size": 4096}).save("larger")
    """
    return widening.widen(opened(source), target, extra=extra)


@dataclass(frozen=True)
class _Own:
    """Data and functions as a verb was given them."""

    data: Data | None
    columns: Mapping[str, str] | None
    loss: Measure | None
    metrics: Mapping[str, Measure] | None
    weights: Weights = None

    def section(self, samples: int | None, length: int | None, batch_size: int | None = None) -> Section | None:
        """The task of a recipe; it says so where a file cannot hold the data."""
        if self.data is None:
            return None
        data: Any = self._name(self.data)
        if isinstance(self.data, Mapping) and not any(hasattr(x, "shape") for x in self.data.values()):
            data = {str(name): self._name(one) for name, one in self.data.items()}
        weights = None if self.weights is None else dict(self.weights)
        return _given(data=data, weights=weights, samples=samples, length=length, batch_size=batch_size)

    def _name(self, data: Any) -> str:
        name = data if isinstance(data, str) else type(data).__name__
        plain = name is data and self.loss is None and not self.metrics
        return name if plain else f"{OWN}:{name}"

    def read(self, name: Any, *models: Checkpoint, **sizes: Any) -> AnyTask:
        """The task itself."""
        return as_task(self.data, *models, columns=self.columns, loss=self.loss, metrics=self.metrics, **sizes)


def _prepared(verb: str, sources: Sequence[Source], document: dict[str, Any], own: _Own, tick: Tick) -> recipes.Plan:
    """The checked plan of a verb."""
    models = [opened(source) for source in sources]
    names = [
        str(source) if isinstance(source, str | Path) else str(model.store.folder)
        for source, model in zip(sources, models, strict=True)
    ]
    recipe = recipes.parse({"onebasin": FORMAT, "verb": verb, "models": names, **document})
    return recipes.prepare(recipe, tick, opened=models, read=own.read)


def _given(**options: Any) -> dict[str, Any]:
    """What is not None; the rest keeps the defaults of recipes."""
    return {
        key: dict(value) if isinstance(value, Mapping) else value for key, value in options.items() if value is not None
    }
