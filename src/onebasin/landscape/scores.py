"""Models beside each other on one task: loss and metric of each, and of their ensemble.

An ensemble says the mean of what its members say, p(y|x) = 1/M Σ_m p_m(y|x), of language models token by token.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.stock import stock_model
from onebasin.errors import OnebasinError
from onebasin.landscape.evaluate import BATCH, Evaluation, Tally, error_of, evaluate, mean_of, predictions
from onebasin.landscape.tables import note_of, plus_minus, table_of
from onebasin.tasks import AnyTask, Mixture, Task

ENSEMBLE = "ensemble"
Models = Mapping[str, tuple[Checkpoint, AnyTask]]
"""Models by name, each with the task, or the same tasks, in the form that it reads."""


@dataclass(frozen=True, repr=False)
class Scores:
    """One row for each model: loss, metrics, their standard errors, how many samples.

    `missing` says why a row is not there; `held` in words what was known of the samples before they were measured on.
    """

    rows: Mapping[str, Evaluation]
    task: Mapping[str, Any]
    missing: Mapping[str, str] = field(default_factory=dict)
    held: str | None = None

    def difference(self, name: str, other: str) -> tuple[float, float]:
        """How much higher the loss of one row is than that of another, with its standard error, sample by sample."""
        one, two = self.rows[name], self.rows[other]
        return one.loss - two.loss, error_of([(1.0, one), (-1.0, two)])

    def as_dict(self) -> dict[str, Any]:
        """Everything that was measured, as plain data."""
        rows = [{"name": name, **row.plain("metric_errors")} for name, row in self.rows.items()]
        return {"task": dict(self.task), "held": self.held, "rows": rows, "missing": dict(self.missing)}

    def __repr__(self) -> str:
        plain = self.as_dict()
        cells = table_of(plain)
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
        return "\n".join([*(line.rstrip() for line in lines), note_of(plain)])


def verdict(scores: Scores, members: Mapping[str, str], name: str) -> str:
    """Whether row `name` is better than the best of the members, in words; `members` maps rows to what to call them."""
    if name in scores.missing:
        return f"the result could not be measured: {scores.missing[name]}"
    there = [row for row in members if row in scores.rows]
    if not there or scores.rows[name].samples < 2:
        return "too little could be measured to say whether it is better: give more samples"
    best = min(there, key=lambda row: scores.rows[row].loss)
    rise, error = scores.difference(name, best)
    if abs(rise) <= 2 * error:
        told = f"as far as {scores.rows[name].samples:,} samples tell: {plus_minus(rise, error)}"
        return f"neither better nor worse than {members[best]}, {told}"
    how = f"than {members[best]} by {plus_minus(abs(rise), error)}"
    return f"worse {how}: not recommended" if rise > 0 else f"better {how}"


@torch.no_grad()
def score(
    models: Models, members: Sequence[str] = (), *, held: str | None = None, missing: Mapping[str, str] | None = None,
    batch_size: int = BATCH, device: str | torch.device = "cpu", tick: Callable[[str], None] = lambda step: None,
) -> Scores:  # fmt: skip
    """Measure every model, in float32; `members` are run side by side, and their ensemble is one more row."""
    first = next(task for _, task in models.values())
    run: dict[str, Any] = {"held": held, "missing": missing, "batch_size": batch_size, "device": device, "tick": tick}
    if not isinstance(first, Mixture):
        return _score(models, members, **run)  # type: ignore[arg-type]
    each = {name: _score(_alone(models, name), members, **run) for name in first.tasks}
    return _together(each, first)


def _alone(models: Models, name: str) -> dict[str, tuple[Checkpoint, Task]]:
    """The models with one of several tasks."""
    return {model: (checkpoint, task.tasks[name]) for model, (checkpoint, task) in models.items()}  # type: ignore[union-attr, misc]


def _together(each: Mapping[str, Scores], task: Mixture) -> Scores:
    """The weighted means of what was measured on several tasks, of the models that could be measured on all."""
    one = next(iter(each.values()))
    missing = {name: why for scores in each.values() for name, why in scores.missing.items()}
    rows = {
        row: mean_of({name: scores.rows[row] for name, scores in each.items()}, task.weights)
        for row in one.rows if all(row in scores.rows for scores in each.values())
    }  # fmt: skip
    about = {"name": task.name, "kind": task.kind, **task.about, "dtype": one.task["dtype"]}
    return Scores(rows, about, missing, one.held)


def _score(
    models: Mapping[str, tuple[Checkpoint, Task]], members: Sequence[str], *, held: str | None,
    missing: Mapping[str, str] | None, batch_size: int, device: str | torch.device, tick: Callable[[str], None],
) -> Scores:  # fmt: skip
    """Every model on one task."""
    reasons, tallies = dict(missing or {}), {}
    running = [(stock_model(models[name][0], torch.float32).to(device), models[name][1]) for name in members]
    if running:
        tick("measuring the models and their ensemble")
        tallies = dict(zip([*members, ENSEMBLE], together(running, batch_size, device), strict=True))
    del running
    rows = {}
    for name, (checkpoint, task) in models.items():
        tick(f"measuring {name}")
        try:
            if name in tallies:
                rows[name] = tallies[name].result()
            else:
                model = stock_model(checkpoint, torch.float32).to(device)
                rows[name] = evaluate(model, task, batch_size=batch_size, device=device)
        except OnebasinError as error:
            reasons[name] = error.what
    task = next(task for _, task in models.values())
    if tallies and all(name in rows for name in members):
        rows[ENSEMBLE] = tallies[ENSEMBLE].result()
    about = {"name": task.name, "kind": task.kind, **task.about, "dtype": "float32"}
    return Scores(rows, about, reasons, held)


def together(models: Sequence[tuple[nn.Module, Task]], batch_size: int, device: str | torch.device) -> list[Tally]:
    """Every model alone, and last the ensemble of all."""
    tallies = [Tally(task) for _, task in (*models, models[0])]
    for batches in zip(*(predictions(model, task, batch_size, device) for model, task in models), strict=True):
        mean = SimpleNamespace(logits=mean_prediction([outputs.logits for outputs, _, _ in batches]))
        for tally, batch in zip(tallies, [*batches, (mean, *batches[0][1:])], strict=True):
            tally.add(*batch)
    return tallies


def mean_prediction(said: Sequence[Tensor]) -> Tensor:
    """log 1/M Σ_m softmax f_m: logits of an ensemble."""
    each = torch.stack([torch.log_softmax(x.float() if x.dtype.itemsize < 4 else x, -1) for x in said])
    return each.logsumexp(0) - math.log(len(said))
