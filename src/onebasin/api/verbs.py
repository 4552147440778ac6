"""The verbs.  Each builds the recipe that the command line would build and follows it: both give the same tensors."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from onebasin import inspection, recipes, verification
from onebasin.api.aligned import AlignedModels
from onebasin.api.sources import Source, opened
from onebasin.checkpoint import Checkpoint
from onebasin.errors import OnebasinError
from onebasin.landscape import Curve, Surface
from onebasin.recipes.document import FORMAT
from onebasin.recipes.notes import noted
from onebasin.recipes.plan import Tick, silent
from onebasin.recipes.recipe import Method, Start
from onebasin.widening import widen as widening

Section: TypeAlias = Mapping[str, Any]
"""A section of a recipe: its keys are those of the recipe file."""


def align(
    a: Source, b: Source, *others: Source, method: Method | None = None, task: str | None = None,
    samples: int | None = None, length: int | None = None, start: Start | None = None, matching: Section | None = None,
    activation: Section | None = None, learn: Section | None = None, device: str = "auto", tick: Tick = silent,
) -> AlignedModels:  # fmt: skip
    """Bring `b` and all others into the basis of `a`, each by one map; what they compute stays.

    `method`, `task`, `samples`, `length` and `start` are the options of `onebasin align`; `matching`, `activation` and
    `learn` the sections of a recipe.  Nothing is written until `.save`.

    Example:
        >>> pair = onebasin.align("A", "B", method="weight")
        >>> pair.merged().save("merged")
    """
    sources = a, b, *others
    document = _given(
        method=method, task=_task(task, samples, length), start=start, matching=matching, activation=activation,
        learn=learn, device=device,
    )  # fmt: skip
    with noted() as notes, tempfile.TemporaryDirectory(prefix="onebasin-") as state:
        plan = _prepared("align", sources, document, tick)
        recipe = plan.recipe
        assert isinstance(recipe, recipes.Align)
        found = recipes.find(plan, recipe, Path(state) / "state", tick)
        tick("certificate")
        return AlignedModels(plan, found, recipes.certify(plan, recipe, found, notes))


def merge(models: Sequence[Source], *, weights: Sequence[float] | None = None, **options: Any) -> Checkpoint:
    """Align all models with the first, then average: one stock checkpoint.  `options` are those of `align`.

    Example:
        >>> onebasin.merge(["A", "B", "C"], weights=[2, 1, 1], method="weight").save("merged")
    """
    if isinstance(models, str | Path) or len(models) < 2:
        step = "merge([A, B]): one list of all models"
        raise OnebasinError("A merge takes a list of models", expected="2 or more", found=models, next_step=step)
    return align(*models, **options).merged(weights)


def barrier(
    a: Source, b: Source, *others: Source, task: str, samples: int | None = None, length: int | None = None,
    batch_size: int | None = None, path: str = "factor", points: int | None = None, device: str = "auto",
    tick: Tick = silent,
) -> Curve | Surface:  # fmt: skip
    """Loss and metric between models as they are: a `Curve` between two, a `Surface` over the simplex of more.

    Example:
        >>> onebasin.barrier("A", pair.models[1], task="text:valid.txt").barrier
    """
    document = _given(task=_task(task, samples, length, batch_size), path=path, points=points, device=device)
    plan = _prepared("barrier", (a, b, *others), document, tick)
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


def _prepared(verb: str, sources: Sequence[Source], document: dict[str, Any], tick: Tick) -> recipes.Plan:
    """The checked plan of a verb."""
    models = [opened(source) for source in sources]
    names = [
        str(source) if isinstance(source, str | Path) else str(model.store.folder)
        for source, model in zip(sources, models, strict=True)
    ]
    recipe = recipes.parse({"onebasin": FORMAT, "verb": verb, "models": names, **document})
    return recipes.prepare(recipe, tick, opened=models)


def _given(**options: Any) -> dict[str, Any]:
    """What is not None; the rest keeps the defaults of recipes."""
    return {
        key: dict(value) if isinstance(value, Mapping) else value for key, value in options.items() if value is not None
    }


def _task(
    data: str | None, samples: int | None, length: int | None, batch_size: int | None = None
) -> dict[str, Any] | None:
    return None if data is None else _given(data=data, samples=samples, length=length, batch_size=batch_size)
