"""Learned matching from end to end: two checkpoints and a start in, one alignment out (P1, algorithm 1; P3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from onebasin.aligning import Aligned, check_pair, in_one_gauge, same_form
from onebasin.alignment import Alignment, move, transport
from onebasin.checkpoint import Checkpoint
from onebasin.learn.batches import Batches
from onebasin.learn.coordinates import Coordinates
from onebasin.learn.laws import of_pair
from onebasin.learn.objective import Objective
from onebasin.learn.options import LearnedMatching
from onebasin.learn.parallel import own_device, processes
from onebasin.learn.spaces import streams
from onebasin.learn.state import load_state
from onebasin.learn.steps import Steps
from onebasin.learn.teacher import check_labelled, check_predicts
from onebasin.learn.training import Point, Progress, Run
from onebasin.match import Matched, Pair
from onebasin.match.blocks import block_weights
from onebasin.tasks import Task, Training, training

BASE = "base"  # the folder of the alignment that a kept run began with


@dataclass(frozen=True)
class Learned:
    """What was learned: B moved by `base`, then by `correction`, with its stream scaled by `scale`.

    The correction is that of the best midpoint on the validation task.  `alignment` is both in one; where permutations
    are soft it takes the nearest hard ones, while `correction` and `moved` keep the soft ones.
    """

    base: Alignment
    correction: Alignment
    alignment: Alignment
    scale: float
    history: tuple[Point, ...]
    best_step: int
    options: LearnedMatching
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether the moved B computes what B does (up to eps, where the stream is scaled)."""
        return self.options.permutations != "soft"

    def moved(self, form_b: Checkpoint) -> Checkpoint:
        """B's canonical form in the learned basis."""
        scaled = scale_streams(form_b, self.scale)
        if self.exact:
            return transport(scaled, self.alignment)
        first = transport(scaled, self.base)

        def leaf(name: str) -> Callable[[], Tensor]:
            return lambda: move(first.spec, first.spec.leaves[name], first[name], self.correction.maps)

        return first.derive({name: leaf(name) for name in first})


def learn(
    a: Checkpoint,
    b: Checkpoint,
    start: Matched | Alignment | None,
    task: Training,
    validation: Task | int = 1000,
    options: LearnedMatching | None = None,
    *,
    device: torch.device | str = "cpu",
    folder: Path | None = None,
    tick: Callable[[Progress], None] = lambda progress: None,
) -> Learned:
    """Refine `start` (None for the identity) by the task loss between `a` and the moved `b`.

    `task` is what to learn from; of a text all of it, not only its windows.  `validation` is a task of its own, or how
    many samples of `task` to hold back.  In `folder` the state is kept; a run that finds one there goes on with it,
    from the base it began with.
    """
    options = options or LearnedMatching()
    check_pair(a, b)
    check_predicts(a)
    if options.loss == "task":
        check_labelled(task)
    options = replace(options, law=of_pair(options.law, a.spec, b.spec))
    form_a, form_b = (form.in_memory() for form in same_form(a, b))
    base = _base(start, form_a, folder)
    with processes(torch.device(device)) as world, _precision(options):
        where = own_device(torch.device(device))
        data = training(task)
        if isinstance(validation, int):
            data, held = data.split(validation)
        else:
            held = validation
        moved = transport(form_b, base).in_memory()
        wide = torch.float64 if options.dtype == "float64" else torch.float32
        objective = Objective(
            form_a, moved, options, task.kind, dtype=wide, forward_dtype=_forward(options, where),
            tokens=options.batch // world.size * data.length,
        ).to(where)  # fmt: skip
        batches = Batches(data.to(where), options.batch, options.seed, augment=options.augment, world=world)
        about = {"task": task.name, "validation": f"{held.name}, {len(held)} samples", "processes": world.size}
        if folder is not None and not world.rank:
            base.save(folder / BASE)
        run = Run(Steps(objective, batches, options, world), held.to(where), folder, about)
        run.train(tick if not world.rank else lambda progress: None)
        return _result(run, base, form_a, about)


def _result(run: Run, base: Alignment, form_a: Checkpoint, about: dict[str, Any]) -> Learned:
    """The maps of the best latents; two sides become one: g = g_A⁻¹ g_B gives the same path (P3)."""
    sides = run.steps.objective.sides
    side_a, side_b = sides[0], sides[-1]
    assert isinstance(side_a, Coordinates)
    assert isinstance(side_b, Coordinates)
    correction, hard = (side_b.alignment(form_a.spec, hard=hard) for hard in (False, True))
    scale = side_b.factor()
    if side_a is not side_b:
        correction = hard = side_a.alignment(form_a.spec).inverse().compose(hard)
        scale /= side_a.factor()
    total = hard.compose(base)
    return Learned(base, correction, total, scale, tuple(run.history), run.best_step, run.options, about)


def _base(start: Matched | Alignment | None, form_a: Checkpoint, folder: Path | None) -> Alignment:
    if folder is not None and load_state(folder) is not None:
        return Alignment.load(folder / BASE)
    if start is None:
        return Alignment.identity(form_a.spec)
    alignment = start.alignment if isinstance(start, Matched) else start
    alignment.check(form_a.spec)
    return alignment.to("cpu")


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


def scale_streams(form: Checkpoint, scale: float) -> Checkpoint:
    """Everything that writes to a stream, times a positive number: the norms undo it, but for their eps."""
    if scale == 1.0:
        return form
    written = {leaf.name for space in streams(form.spec) for leaf in form.spec.writers(space)}

    def scaled(name: str) -> Callable[[], Tensor]:
        return lambda: scale * form[name]

    return form.derive({name: scaled(name) for name in written})


def aligned(a: Checkpoint, b: Checkpoint, learned: Learned) -> Aligned:
    """B in A's basis and gauge by what was learned, like the result of matching."""
    form_a, form_b = (form.in_memory() for form in same_form(a, b))
    pair = Pair.of(form_a, form_b)
    weight = block_weights(pair, "balanced")
    distances = tuple(
        sum(weight[leaf.name] * pair.distance(g.maps, leaf) for leaf in pair.spec.leaves.values())
        for g in (learned.base, learned.alignment)
    )
    matched = Matched(learned.alignment, distances, converged=True)
    first, second, reason = in_one_gauge(a, form_a, learned.moved(form_b))
    return Aligned(first, second, matched, reason)
