"""The best alignment that can be had from what is there: no data, inputs without labels, or a labelled task.

1. Inputs: the task's, or where there is none what the models make up themselves (`onebasin.tasks.synthetic`).
2. Start: weight matching and activation matching; the one whose centre, the average of all models, does better on
   inputs held back.
3. Learning from there: by the task loss where there are labels, by agreement with the end points where not.  The
   best centre on the held-back inputs is kept, the start included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from onebasin.aligning import Aligned, match_forms
from onebasin.checkpoint import Checkpoint
from onebasin.landscape import Simplex, evaluate
from onebasin.landscape.simplex import middle
from onebasin.learn import Learned, LearnedMatching, Progress, aligned_pairs, learn_together
from onebasin.learn.teacher import Teacher, check_predicts, disagreement
from onebasin.spec import Images
from onebasin.tasks import Task, synthetic_task, training
from onebasin.universe import Universe, match_universe
from onebasin.universe.matching import ROUNDS, TOL
from onebasin.universe.universe import Match

PROBES = 500  # inputs that activations are looked at on, at most
HELD = 0.2  # the share of the inputs that is held back
QUICK = LearnedMatching(steps=300, batch=64, lr=3e-3, eval_every=25, compile="off", alpha=10.0)  # near the centre
MODEST = replace(QUICK, steps=100, batch=16)  # minutes on a CPU
TEXTS, PICTURES = 250, 1000  # inputs that are made up on a CPU: words are slow to write


def quick(device: torch.device | str) -> LearnedMatching:
    """How to learn on this device where nobody says."""
    return MODEST if torch.device(device).type == "cpu" else QUICK


@dataclass(frozen=True)
class Chosen:
    """What came of it, and what that rests on: the loss of the centre (of two models, the midpoint) by start.

    `pairs` are the first model with each of the others; `learned` has one entry for each model, the first's included.
    `universe` is the start that was taken.
    """

    models: tuple[Checkpoint, ...]
    universe: Universe
    learned: tuple[Learned, ...]
    midpoints: dict[str, float]
    why: str

    @property
    def pairs(self) -> tuple[Aligned, ...]:
        return aligned_pairs(self.models, self.learned[1:])


def choose(
    models: Sequence[Checkpoint],
    task: Task | None = None,
    options: LearnedMatching | None = None,
    *,
    rounds: int = ROUNDS,
    tol: float = TOL,
    device: torch.device | str = "cpu",
    folder: Path | None = None,
    tick: Callable[[str], None] = lambda step: None,
    learning: Callable[[Progress], None] = lambda progress: None,
) -> Chosen:
    """Align all models with the first by whatever serves best.

    `options` say how to learn; the loss is set by what there is.  `rounds` and `tol` are those of `match_universe`.
    """
    check_predicts(models[0])
    options = options or quick(device)
    if task is None:
        tick("synthetic inputs")
    data = task or _made_up(models, options.seed, device)
    options = replace(options, loss="task" if data.labelled else "agreement")
    rest, held = training(data).split(max(1, round(HELD * len(data))))
    options = replace(options, batch=min(options.batch, len(rest)))
    probes = [inputs for inputs, _ in data.first(min(PROBES, len(data))).batches(50)]
    ways: dict[str, Match] = {
        "weights": partial(match_forms, device=device, tick=tick),
        "activations": partial(match_forms, method="activation", batches=probes, device=device, tick=tick),
    }
    rounds = rounds if len(models) > 2 else 1  # the mean of two tells nothing new
    starts = {name: match_universe(models, way, rounds=rounds, tol=tol, tick=tick) for name, way in ways.items()}
    tick("comparing the starts")
    teacher = None if data.labelled else Teacher(models, data.kind).to(device)
    midpoints = {name: _centre(start, held, teacher, device) for name, start in starts.items()}
    best = min(midpoints, key=lambda name: midpoints[name])
    begin = (None, *starts[best].alignments[1:])
    found = learn_together(models, begin, rest, held, options, device=device, folder=folder, tick=learning)
    return Chosen(tuple(models), starts[best], found, midpoints, _why(task, data, midpoints, best, found[0]))


def _made_up(models: Sequence[Checkpoint], seed: int, device: torch.device | str) -> Task:
    few = PICTURES if isinstance(models[0].spec.inputs, Images) else TEXTS
    samples = few if torch.device(device).type == "cpu" else None
    return synthetic_task(models, samples=samples, seed=seed, device=device)


def _centre(start: Universe, held: Task, teacher: Teacher | None, device: torch.device | str) -> float:
    """The loss of the average, against labels or against what the end points say."""
    count = len(start.models)
    model = Simplex(start.members()).model(middle(count, *range(count)), device=device)
    if teacher is None:
        return evaluate(model, held, device=device).loss
    return disagreement(model, held, teacher, torch.device(device))


def _why(task: Task | None, data: Task, midpoints: dict[str, float], best: str, found: Learned) -> str:
    """In words, with the figures."""
    seen = f"no task was given, so the models made up {len(data)} inputs" if task is None else f"given {data.name}"
    losses = ", ".join(f"{loss:.4g} from {name}" for name, loss in midpoints.items())
    by = "the task loss" if data.labelled else "agreement with the end points"
    place = "midpoint" if len(found.ends) == 2 else "centre"
    return (
        f"{seen}; the {place}'s loss on inputs held back is {losses}, so {best} are the start; learning by {by} "
        f"leaves {found.midpoint:.4g} after step {found.best_step} of {found.options.steps}"
    )
