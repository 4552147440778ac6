"""Any models beside each other on one task, each in the form that it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.sources import Source, opened
from onebasin.ensemble.words import letter, name_of
from onebasin.errors import BadTask, Incompatible, OnebasinError
from onebasin.labels.pairs import in_one_labelling
from onebasin.landscape import Scores, score
from onebasin.methods.method import Tick
from onebasin.recipes import recipe
from onebasin.spec import Tokens
from onebasin.tasks import AnyTask, Task, parts_of
from onebasin.tasks.task import class_count


def compare(
    sources: Sequence[Source], data: recipe.Task, read: Callable[..., AnyTask], *, ensemble: bool, device: torch.device,
    tick: Tick,
) -> Scores:  # fmt: skip
    """Check that the task fits every model, and measure them all; `read` makes the task of what `data` calls it."""
    if not sources:
        raise OnebasinError("There is nothing to measure", expected="one model or more", next_step="name a model")
    models = [opened(source) for source in sources]
    if ensemble:
        models = list(in_one_labelling(models))
    found = {}
    for name, model in zip(_names(sources, models), models, strict=True):
        tick(f"reading {name}")
        task = read(data.data, model, samples=data.samples, length=data.length, weights=data.weights)
        for part, one, _ in parts_of(task):
            if not one.labelled:
                step = "give a task with labels, or text that people wrote"
                raise BadTask("The task has nothing to measure against", expected="labels", found=part, next_step=step)
        found[name] = model, task
    for part, _, _ in parts_of(task) if ensemble else ():
        check_outputs({name: (model, _part(one, part)) for name, (model, one) in found.items()})
    for model in models:
        model.check_values(lambda done, total: tick("checking that every number is finite", done, total))
    return score(found, list(found) if ensemble else (), batch_size=data.batch_size, device=device, tick=tick)


def _names(sources: Sequence[Source], models: Sequence[Checkpoint]) -> list[str]:
    """What the models are called; with letters where two would have one name."""
    paths = [
        str(x) if isinstance(x, str) else str(model.store.folder) for x, model in zip(sources, models, strict=True)
    ]
    names = [name_of(path) for path in paths]
    return names if len(set(names)) == len(names) else [f"{letter(i)} ({name})" for i, name in enumerate(names)]


def _part(task: AnyTask, name: str) -> Task:
    """One of several tasks, or the only one."""
    return task if isinstance(task, Task) else task.tasks[name]  # type: ignore[return-value]


def check_outputs(models: Mapping[str, tuple[Checkpoint, Task]]) -> None:
    """The members of an ensemble tell the same things apart."""
    (first, (a, task)), *others = models.items()
    for name, (b, other) in others:
        sizes, labels = (outputs(a, task), outputs(b, other)), [c.config.get("id2label") for c in (a, b)]
        if sizes[0] != sizes[1]:
            raise _no_ensemble("number of outputs", f"{sizes[0]} ({first})", f"{sizes[1]} ({name})")
        if task.labels.shape != other.labels.shape or not torch.equal(task.labels, other.labels):
            raise _no_ensemble("tokens or classes of the task", f"those of {first}", f"others ({name})")
        if all(labels) and labels[0] != labels[1]:
            raise _no_ensemble("class names (id2label)", f"{labels[0]} ({first})", f"{labels[1]} ({name})")


def outputs(checkpoint: Checkpoint, task: Task) -> int:
    """How many classes or tokens a model tells apart."""
    reads = checkpoint.spec.reads
    return reads.vocabulary if isinstance(reads, Tokens) and task.labels.ndim > 1 else class_count(checkpoint)


def _no_ensemble(what: str, expected: str, found: str) -> Incompatible:
    return Incompatible(
        f"The models have no ensemble: {what} differ", expected=expected, found=found,
        next_step="leave --ensemble out, or take models with the same outputs",
    )  # fmt: skip
