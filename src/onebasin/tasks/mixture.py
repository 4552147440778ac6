"""Several tasks of one head at once: L = Σ_t w_t L_t over tasks t, with weights w_t that sum to 1.

What reads samples asks for the parts of its data: a task alone is one part, a mixture has several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

import torch
from torch import Tensor

from onebasin.errors import BadTask
from onebasin.tasks.task import Measure, Task
from onebasin.tasks.training import Windows

One = Task | Windows
MEAN = "mean"  # what figures of all tasks together are called


@dataclass(frozen=True)
class Mixture:
    """`tasks` by name, and the weight w of each.  Of n samples all tasks give the same number, as far as they can.

    The labels of a task without a truth (text that models made up) are not kept: there the models themselves are asked.
    """

    tasks: Mapping[str, One]
    weights: Mapping[str, float]

    @property
    def name(self) -> str:
        return " and ".join(self.tasks)

    @property
    def kind(self) -> str:
        return self._first.kind

    @property
    def loss(self) -> Measure | None:
        return self._first.loss

    @property
    def about(self) -> dict[str, Any]:
        """What every task is, and how much it counts."""
        tasks = {
            name: {"weight": weight, "name": task.name, "kind": task.kind, **task.about}
            for name, task, weight in parts_of(self)
        }
        return {"tasks": tasks, "samples": len(self)}

    @property
    def labelled(self) -> bool:
        """Whether all tasks have a truth to learn from."""
        return all(task.labelled for task in self.tasks.values())

    @property
    def scored(self) -> bool:
        """Whether a model can be measured alone on all tasks: labels are kept only where they are the truth."""
        return self.labelled

    @property
    def length(self) -> int:
        """Labels of a sample, of the task that has the most."""
        return max(task.length for task in self.tasks.values())

    @property
    def _first(self) -> One:
        return next(iter(self.tasks.values()))

    def __len__(self) -> int:
        return sum(map(len, self.tasks.values()))

    def batches(self, size: int) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        """The samples of one task after the other, in order."""
        for task in self.tasks.values():
            assert isinstance(task, Task)
            yield from task.batches(size)

    def to(self, device: torch.device | str) -> Mixture:
        """The same samples on a device."""
        return self.each(lambda task: task.to(device))

    def unlabelled(self) -> Mixture:
        """The same inputs without labels."""
        return self.each(lambda task: task.unlabelled() if isinstance(task, Task) else task)

    def split(self, n: int) -> tuple[Mixture, Mixture]:
        """(the others, about n samples to hold back): the same number of every task, at most half of it."""
        split = {name: task.split(self._of(task, n)) for name, task in self.tasks.items()}
        rest, held = ({name: both[i] for name, both in split.items()} for i in (0, 1))
        return replace(self, tasks=rest), replace(self, tasks=held)

    def first(self, n: int) -> Mixture:
        """The first samples of every task, about n in all; where that is not everything, at most half of each."""
        return self if n >= len(self) else self.each(lambda task: _whole(task).first(self._of(task, n)))

    def after(self, n: int) -> Mixture:
        """All samples but those of `first(n)`."""
        return self.each(lambda task: _whole(task).after(self._of(task, n)))

    def each(self, change: Callable[[Any], One]) -> Mixture:
        """Every task changed."""
        return replace(self, tasks={name: change(task) for name, task in self.tasks.items()})

    def _of(self, task: One, n: int) -> int:
        return max(1, min(n // len(self.tasks), len(task) // 2))


Some = TypeVar("Some", bound="Task | Windows | Mixture")
AnyTask = Task | Mixture
Training = Task | Windows | Mixture


def mix(tasks: Mapping[str, Task], weights: Mapping[str, float] | None = None) -> Mixture:
    """The mixture of tasks for one model; weights are relative, 1 where none is given."""
    weights, first = weights or {}, next(iter(tasks.values()))
    if odd := sorted(set(weights) - set(tasks)):
        step = "give weights to tasks by their names"
        raise BadTask("There is no such task to weigh", expected=", ".join(tasks), found=odd[0], next_step=step)
    if MEAN in tasks:
        step = "give that task another name"
        raise BadTask("No task can be called mean: so are the figures of all of them", found=MEAN, next_step=step)
    for name, task in tasks.items():
        if task.kind != first.kind or task.loss is not first.loss:
            step = "give tasks that one head and one loss are for"
            found = f"{task.kind} ({name})" if task.kind != first.kind else f"another loss ({name})"
            raise BadTask("The tasks do not go together", expected=first.kind, found=found, next_step=step)
        if task.loss is not None and not task.labelled:
            step = "leave that task or the loss out"
            raise BadTask("A loss of your own needs labels in every task", found=name, next_step=step)
    total = sum(weights.get(name, 1.0) for name in tasks)
    kept = {name: task if task.labelled else task.unlabelled() for name, task in tasks.items()}
    return Mixture(kept, {name: weights.get(name, 1.0) / total for name in tasks})


def parts_of(data: Training) -> Sequence[tuple[str, One, float]]:
    """(name, task, weight) of every task: of one alone, itself."""
    if isinstance(data, Mixture):
        return [(name, task, data.weights[name]) for name, task in data.tasks.items()]
    return [(data.name, data, 1.0)]


def with_labels(data: Some) -> Some | None:
    """The tasks that have labels, with the weights that they have among each other; None where there is none."""
    if not isinstance(data, Mixture):
        return data if data.labelled else None
    kept = {name: task for name, task in data.tasks.items() if task.labelled}
    total = sum(data.weights[name] for name in kept)
    return replace(data, tasks=kept, weights={name: data.weights[name] / total for name in kept}) if kept else None


@overload
def training(data: One) -> One: ...
@overload
def training(data: Mixture) -> Mixture: ...
def training(data: Training) -> Training:
    """What to learn from: the whole text behind a task's windows, or its own samples; so of every task of a mixture."""
    if isinstance(data, Mixture):
        return data.each(training)
    if isinstance(data, Windows) or data.text is None:
        return data
    about = {**data.about, "samples": "windows from anywhere"}
    return Windows(data.name, data.text, int(data.labels.shape[1]), about, loss=data.loss)


def _whole(task: One) -> Task:
    assert isinstance(task, Task)
    return task
