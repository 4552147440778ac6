"""The best alignment that can be had from what is there: no data, inputs without labels, or a labelled task.

1. Inputs: the task's, or where there is none what the models make up themselves (`onebasin.tasks.synthetic`).
2. Start: weight matching and activation matching; the one whose midpoint does better on inputs held back.
3. Learning from there: by the task loss where there are labels, by agreement with the end points where not.  The
   best midpoint on the held-back inputs is kept, the start included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from onebasin.aligning import Aligned, align, check_pair
from onebasin.checkpoint import Checkpoint
from onebasin.landscape import FactorPath, evaluate
from onebasin.learn import Learned, LearnedMatching, aligned, learn
from onebasin.learn.teacher import Teacher, check_predicts, disagreement
from onebasin.tasks import Task, synthetic_task, training

PROBES = 500  # inputs that activations are looked at on, at most
HELD = 0.2  # the share of the inputs that is held back
QUICK = LearnedMatching(steps=300, batch=64, lr=3e-3, eval_every=25, compile="off")


@dataclass(frozen=True)
class Chosen:
    """The alignment, how it came about, and what that rests on: the midpoint's loss on held-back inputs by start."""

    aligned: Aligned
    learned: Learned
    midpoints: dict[str, float]
    why: str


def choose(
    a: Checkpoint,
    b: Checkpoint,
    task: Task | None = None,
    options: LearnedMatching | None = None,
    *,
    device: torch.device | str = "cpu",
    folder: Path | None = None,
    tick: Callable[[str], None] = lambda step: None,
) -> Chosen:
    """Align B with A by whatever serves best.  `options` say how to learn; its loss is set by what there is."""
    check_pair(a, b)
    check_predicts(a)
    if task is None:
        tick("synthetic inputs")
    options = options or QUICK
    data = task or synthetic_task([a, b], seed=options.seed, device=device)
    options = replace(options, loss="task" if data.labelled else "agreement")
    rest, held = training(data).split(max(1, round(HELD * len(data))))
    options = replace(options, batch=min(options.batch, len(rest)))
    starts = {"weights": align(a, b, "weight", device=device, tick=tick)}
    probes = [inputs for inputs, _ in data.first(min(PROBES, len(data))).batches(50)]
    starts["activations"] = align(a, b, "activation", batches=probes, device=device, tick=tick)
    tick("comparing the starts")
    teacher = None if data.labelled else Teacher((a, b), data.kind).to(device)
    midpoints = {name: _midpoint(start, held, teacher, device) for name, start in starts.items()}
    best = min(midpoints, key=lambda name: midpoints[name])
    found = learn(
        a, b, starts[best].matched, rest, held, options, device=device, folder=folder,
        tick=lambda progress: tick(f"learning, {progress}"),
    )  # fmt: skip
    return Chosen(aligned(a, b, found), found, midpoints, _why(task, data, midpoints, best, found))


def _midpoint(start: Aligned, held: Task, teacher: Teacher | None, device: torch.device | str) -> float:
    """The loss of the average, against labels or against what the end points say."""
    model = FactorPath(start.a.in_memory(), start.b.in_memory()).model(0.5, device=device)
    if teacher is None:
        return evaluate(model, held, device=device).loss
    return disagreement(model, held, teacher, torch.device(device))


def _why(task: Task | None, data: Task, midpoints: dict[str, float], best: str, found: Learned) -> str:
    """In words, with the figures."""
    seen = f"no task was given, so the models made up {len(data)} inputs" if task is None else f"given {data.name}"
    losses = ", ".join(f"{loss:.4g} from {name}" for name, loss in midpoints.items())
    by = "the task loss" if data.labelled else "agreement with the end points"
    after = min(point.midpoint for point in found.history)
    return (
        f"{seen}; the midpoint's loss on inputs held back is {losses}, so {best} are the start; learning by {by} "
        f"leaves {after:.4g} after step {found.best_step} of {found.options.steps}"
    )
