"""Learned matching from end to end: checkpoints and starts in, one alignment each out (P1, algorithm 1; P3).

Two models or more, one program: which latents exist and how λ is drawn is all that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from onebasin.aligning import check_pair
from onebasin.alignment import Alignment, transport
from onebasin.checkpoint import Checkpoint
from onebasin.errors import Incompatible
from onebasin.learn.batches import Batches
from onebasin.learn.coordinates import Coordinates
from onebasin.learn.laws import law_for, of_pair
from onebasin.learn.learned import Learned, forms_of
from onebasin.learn.objective import Objective
from onebasin.learn.options import LearnedMatching
from onebasin.learn.parallel import own_device, processes
from onebasin.learn.state import load_state
from onebasin.learn.steps import Steps
from onebasin.learn.teacher import check_labelled, check_predicts
from onebasin.learn.training import Progress, Run
from onebasin.match import Matched
from onebasin.spec import ModelSpec
from onebasin.tasks import Task, Training, training

BASE = "base"  # the folder of the alignments that a kept run began with, one for each model but the first
Start = Matched | Alignment | None


def learn(
    a: Checkpoint,
    b: Checkpoint,
    start: Start,
    task: Training,
    validation: Task | int = 1000,
    options: LearnedMatching | None = None,
    *,
    device: torch.device | str = "cpu",
    folder: Path | None = None,
    tick: Callable[[Progress], None] = lambda progress: None,
) -> Learned:
    """Refine `start` (None for the identity) by the task loss between `a` and the moved `b`."""
    starts = (None, start)
    return learn_together((a, b), starts, task, validation, options, device=device, folder=folder, tick=tick)[1]


def learn_together(
    models: Sequence[Checkpoint],
    starts: Sequence[Start],
    task: Training,
    validation: Task | int = 1000,
    options: LearnedMatching | None = None,
    *,
    device: torch.device | str = "cpu",
    folder: Path | None = None,
    tick: Callable[[Progress], None] = lambda progress: None,
) -> tuple[Learned, ...]:
    """Refine the start of every model by the task loss among all of them; each result leads into the first one's basis.

    `starts` lead from the canonical forms into that of the first model (None for the identity); if the first is not
    None, into the frame that it leads to.  `task` is what to learn from; of a text all of it, not only its windows.
    `validation` is a task of its own, or how many samples of `task` to hold back.  In `folder` the state is kept; a run
    that finds one there goes on with it, from the bases it began with.
    """
    options = options or LearnedMatching()
    _check(models, starts)
    law = of_pair(law_for(options.law, len(models)), models[0].spec, models[1].spec)
    options = replace(options, law=law)
    if options.loss == "task":
        check_labelled(task)
    forms = forms_of(models)
    bases = _bases(starts, forms[0].spec, folder)
    with processes(torch.device(device)) as world, _precision(options):
        where = own_device(torch.device(device))
        data = training(task)
        if isinstance(validation, int):
            data, held = data.split(validation)
        else:
            held = validation
        moved = [forms[0], *(transport(x, g).in_memory() for x, g in zip(forms[1:], bases[1:], strict=True))]
        wide = torch.float64 if options.dtype == "float64" else torch.float32
        objective = Objective(
            moved, options, task.kind, dtype=wide, forward_dtype=_forward(options, where),
            tokens=options.batch // world.size * data.length,
        ).to(where)  # fmt: skip
        batches = Batches(data.to(where), options.batch, options.seed, augment=options.augment, world=world)
        about = {
            "models": len(models), "task": task.name, "validation": f"{held.name}, {len(held)} samples",
            "processes": world.size,
        }  # fmt: skip
        if folder is not None and not world.rank:
            for m, base in enumerate(bases[1:], 1):
                base.save(folder / BASE / str(m))
        run = Run(Steps(objective, batches, options, world), held.to(where), folder, about)
        run.train(tick if not world.rank else lambda progress: None)
        return _results(run, bases, forms[0].spec, about)


def _check(models: Sequence[Checkpoint], starts: Sequence[Start]) -> None:
    if len(models) < 2 or len(starts) != len(models):
        raise Incompatible(
            "Learning needs two models or more, and one start for each",
            expected=f"{max(len(models), 2)} models and as many starts",
            found=f"{len(models)} models, {len(starts)} starts",
            next_step="give None as the start of a model that is to begin where it is",
        )
    for model in models[1:]:
        check_pair(models[0], model)
    check_predicts(models[0])


def _results(run: Run, bases: list[Alignment], spec: ModelSpec, about: dict[str, Any]) -> tuple[Learned, ...]:
    """The maps of the best latents, into the basis of the first model.

    Where it has moved itself, the others follow it back: g_1⁻¹ g_m gives the same models between (P3).  Gains hold only
    in the basis that they were learned in, so with gains all stay there, the first moved by its own map.
    """
    sides = [side for side in run.steps.objective.sides if isinstance(side, Coordinates)]
    still = len(bases) - len(sides)
    soft = [Alignment.identity(spec)] * still + [side.alignment(spec, hard=False) for side in sides]
    hard = [Alignment.identity(spec)] * still + [side.alignment(spec) for side in sides]
    scales = [1.0] * still + [side.factor() for side in sides]
    gains = [dict[str, torch.Tensor]()] * still + [side.learned_gains() for side in sides]
    frame = None
    if not still and "gains" in run.options.learn:
        frame = hard[0]
    elif not still:
        back = hard[0].inverse()
        soft = hard = [Alignment.identity(spec), *(back.compose(g) for g in hard[1:])]
    return tuple(
        Learned(
            base, correction, nearest.compose(base), scale / scales[0], tuple(run.history), run.best_step, run.options,
            about, run.ends, own, frame,
        )
        for base, correction, nearest, scale, own in zip(bases, soft, hard, scales, gains, strict=True)
    )  # fmt: skip


def _bases(starts: Sequence[Start], spec: ModelSpec, folder: Path | None) -> list[Alignment]:
    """Where every model begins, in the basis of the first; those of a run that is kept in `folder`, if there is one."""
    if folder is not None and load_state(folder) is not None:
        found = [Alignment.load(folder / BASE / str(m)) for m in range(1, len(starts))]
    else:
        first, *found = [_alignment(start, spec) for start in starts]
        if starts[0] is not None:
            found = [first.inverse().compose(g) for g in found]
    return [Alignment.identity(spec), *(_laid_out(g) for g in found)]


def _alignment(start: Start, spec: ModelSpec) -> Alignment:
    if start is None:
        return Alignment.identity(spec)
    alignment = start.alignment if isinstance(start, Matched) else start
    alignment.check(spec)
    return alignment.to("cpu")


def _laid_out(g: Alignment) -> Alignment:
    """The same numbers in fresh memory, row by row: products of what lies otherwise, as in a file, round otherwise."""
    maps = {}
    for name, m in g.maps.items():
        maps[name] = type(m).from_tensors({k: x.contiguous().clone() for k, x in m.tensors().items()})
    return Alignment(maps, g.bases)


def _forward(options: LearnedMatching, device: torch.device) -> torch.dtype | None:
    half = options.dtype == "bfloat16" or (options.dtype == "auto" and device.type == "cuda")
    return torch.bfloat16 if half else None


@contextmanager
def _precision(options: LearnedMatching) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
