"""The verbs for Python: what the command line does, on folders, Hub ids, open checkpoints and live models.

Each builds the recipe that the command line would build and follows it: both give the same tensors.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from onebasin import recipes
from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.sources import Source, live, opened
from onebasin.ensemble import inspection
from onebasin.ensemble.aligned import Aligned
from onebasin.errors import OnebasinError
from onebasin.landscape import Surface
from onebasin.methods.method import Tick, silent
from onebasin.recipes.document import FORMAT
from onebasin.recipes.notes import keep_warnings
from onebasin.tasks import Measure, Task, as_task
from onebasin.tasks.load import OWN
from onebasin.verification import verify as verification
from onebasin.widening import widen as widening

__all__ = ["Aligned", "Source", "align", "barrier", "inspect", "live", "merge", "verify", "widen"]

Section: TypeAlias = Mapping[str, Any]
"""A section of a recipe: its keys are those of the recipe file."""
Data: TypeAlias = "str | Path | Task | Iterable[Any]"
"""What to align or to measure on: text as after `--task`, or data of your own (`onebasin.tasks.as_task`)."""


def align(
    a: Source, b: Source, *others: Source, method: str | None = None, task: Data | None = None,
    samples: int | None = None, length: int | None = None, columns: Mapping[str, str] | None = None,
    loss: Measure | None = None, metrics: Mapping[str, Measure] | None = None, device: str = "auto",
    tick: Tick = silent, **sections: Section,
) -> Aligned:  # fmt: skip
    """Bring `b` and all others into the basis of `a`, each by one map; what they compute stays.

    `method`, `task`, `samples` and `length` are the options of `onebasin align`; `sections` are those of a recipe, such
    as `weight={"sweeps": 5}`, `learned={"steps": 500, "start": "weight"}`.  Nothing is written until `.save`.

    The task may also be a `DataLoader`, a list of batches, a `datasets.Dataset` or a `Task`, with a `loss` and
    `metrics` of your own (`onebasin.tasks.as_task`).

    Example:
        >>> pair = onebasin.align("A", "B", method="weight")
        >>> pair.merged().save("merged")
    """
    own = _Own(task, columns, loss, metrics)
    document = _given(method=method, task=own.section(samples, length), device=device, **sections)
    with keep_warnings() as notes, tempfile.TemporaryDirectory(prefix="onebasin-") as state:
        plan = _prepared("align", (a, b, *others), document, own, tick)
        aligned = recipes.align(plan, Path(state) / "state", tick)
        return replace(recipes.certify(plan, aligned, notes, tick), writer=partial(_write, plan))


def _write(plan: recipes.Plan, aligned: Aligned, folder: Path, dtype: str | None) -> None:
    recipe = plan.recipe
    assert isinstance(recipe, recipes.Align)
    write = replace(recipe.write, out=str(folder), dtype=dtype)  # type: ignore[arg-type]
    recipes.write(replace(plan, recipe=replace(recipe, write=write)), aligned)


def merge(models: Sequence[Source], *, shares: Sequence[float] | None = None, **options: Any) -> Checkpoint:
    """Align all models with the first, then average: one stock checkpoint.  `options` are those of `align`.

    Example:
        >>> onebasin.merge(["A", "B", "C"], shares=[2, 1, 1], method="weight").save("merged")
    """
    if isinstance(models, str | Path) or len(models) < 2:
        step = "merge([A, B]): one list of all models"
        raise OnebasinError("A merge takes a list of models", expected="2 or more", found=models, next_step=step)
    return align(*models, **options).merged(shares)


def barrier(
    a: Source, b: Source, *others: Source, task: Data, samples: int | None = None, length: int | None = None,
    columns: Mapping[str, str] | None = None, loss: Measure | None = None,
    metrics: Mapping[str, Measure] | None = None, batch_size: int | None = None, path: str = "factor",
    points: int | None = None, device: str = "auto", tick: Tick = silent,
) -> Surface:  # fmt: skip
    """Loss and metric between models as they are: a `Curve` between two, a `Surface` over the simplex of more.

    Without labels the loss is how far the models between are from what the end points say, each by its share.

    Example:
        >>> onebasin.barrier("A", pair.models[1], task="text:valid.txt").barrier
    """
    own = _Own(task, columns, loss, metrics)
    section = own.section(samples, length, batch_size)
    document = _given(task=section, path=path, points=points, device=device)
    plan = _prepared("barrier", (a, b, *others), document, own, tick)
    recipe = plan.recipe
    assert isinstance(recipe, recipes.Barrier)
    return recipes.landscape(plan, recipe, tick)


def inspect(a: Source, b: Source | None = None) -> inspection.Inspection:
    """The symmetries of a model; with `b`, what stands between the two.  Reads headers only.

    Example:
        >>> onebasin.inspect("A", "B").ready
    """
    return inspection.inspect(opened(a), None if b is None else opened(b))


def verify(source: Source, *, seed: int = 0, tick: Tick = silent) -> verification.Verification:
    """How far random symmetries of a model move its outputs; `.holds` if they do not.

    Example:
        >>> assert onebasin.verify("A").holds
    """
    return verification.verify(opened(source), seed=seed, tick=tick)


def widen(source: Source, target: Mapping[str, Any] | Any, *, extra: str = "zero") -> Checkpoint:
    """The same function as a larger model; `target` names sizes of its config.json, or is a whole configuration.

    Additional units and heads do nothing ("zero"), or are copies that share their outputs ("split").

    Example:
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

    def section(self, samples: int | None, length: int | None, batch_size: int | None = None) -> Section | None:
        """The task of a recipe; it says so where a file cannot hold the data."""
        if self.data is None:
            return None
        name = self.data if isinstance(self.data, str) else type(self.data).__name__
        plain = name is self.data and self.loss is None and not self.metrics
        return _given(data=name if plain else f"{OWN}:{name}", samples=samples, length=length, batch_size=batch_size)

    def read(self, name: str, *models: Checkpoint, **sizes: Any) -> Task:
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
