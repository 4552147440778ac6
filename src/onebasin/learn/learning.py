"""Learned matching from end to end: models that are aligned somehow in, better aligned ones out.

Two models or more, one program: which latents exist and how λ is drawn is all that differs (first paper, algorithm 1;
third paper).
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from onebasin.alignment import Alignment, transport
from onebasin.ensemble.aligned import Aligned, Move
from onebasin.events import Callback
from onebasin.landscape.teacher import check_labelled
from onebasin.learn.course import Run
from onebasin.learn.objective import Objective
from onebasin.learn.options import LearnedMatching
from onebasin.learn.state import load_state
from onebasin.learn.steps import Steps
from onebasin.learn.variation import OURS, Variation
from onebasin.maps import Map
from onebasin.moving.coordinates import Coordinates
from onebasin.moving.stacks import free_gains
from onebasin.options import write_section
from onebasin.paths.factor import Paces
from onebasin.paths.laws import law_for
from onebasin.processes.devices import own_device, quick_products
from onebasin.processes.world import World, processes
from onebasin.spec import ModelSpec
from onebasin.tasks import AnyTask, Mixture, Training, training
from onebasin.tasks.batches import Batches, MixedBatches

BASE = "base"  # the folder of the alignments that a kept run began with, one for each model but the first


def learn(
    start: Aligned,
    task: Training,
    validation: AnyTask | int = 1000,
    options: LearnedMatching | None = None,
    variation: Variation = OURS,
    *,
    device: torch.device | str = "cpu",
    folder: Path | None = None,
    told: Callback | None = None,
) -> Aligned:
    """Refine the maps of all models by the loss among them; the first model stays, or all move.

    `task` is what to learn from; of a text all of it, not only its windows.  `validation` is a task of its own, or how
    many samples of `task` to hold back.  In `folder` the state is kept; a run that finds one there goes on with it,
    from the maps it began with.  `told` is told how it goes, by the first of several processes.
    """
    ensemble, options = start.ensemble, (options or LearnedMatching()).for_task(task)
    if variation.law is None:
        options = replace(options, law=law_for(options.law, len(ensemble)))  # type: ignore[arg-type]
    if options.loss == "task":
        check_labelled(task)
    with processes(torch.device(device)) as world, quick_products():
        where, bases = own_device(torch.device(device)), world.of_first(_bases(start, folder))
        data, held = training(task), validation
        if isinstance(held, int):
            data, held = data.split(held)
        steps = _steps(start, bases, data.to(where), options, variation, where, world)
        about = {
            "models": len(ensemble), "task": task.name, "validation": f"{held.name}, {len(held)} samples",
            "processes": world.size,
        }  # fmt: skip
        if folder is not None and not world.rank:
            for m, base in enumerate(bases[1:], 1):
                base.save(folder / BASE / str(m))
        run = Run(steps, held.to(where), folder, about)
        run.train(told if not world.rank else None)
        return _result(run, start, bases, variation)


def _steps(
    start: Aligned, bases: list[Alignment], data: Training, options: LearnedMatching, variation: Variation,
    device: torch.device, world: World,
) -> Steps:  # fmt: skip
    """The optimisation, ready to begin: the models are moved by their bases and held in memory."""
    forms = start.ensemble.forms
    moved = [forms[0], *(transport(form, base) for form, base in zip(forms[1:], bases[1:], strict=True))]
    if not options.by_blocks(forms[0].spec):
        moved = [form.in_memory() for form in moved]
    wide = torch.float64 if options.dtype == "float64" else torch.float32
    half = options.dtype == "bfloat16" or (options.dtype == "auto" and device.type == "cuda")
    objective = Objective(
        moved, options, data.kind, variation, dtype=wide, forward_dtype=torch.bfloat16 if half else None,
        tokens=options.batch // world.size * data.length, loss=data.loss, device=device, world=world,
    )  # fmt: skip
    batches: Batches | MixedBatches
    if isinstance(data, Mixture):
        batches = MixedBatches(data, options.batch, options.seed, augment=options.augment, world=world)
    else:
        batches = Batches(data, options.batch, options.seed, augment=options.augment, world=world)
    return Steps(objective, batches, options, world, variation)


def _result(run: Run, start: Aligned, bases: list[Alignment], variation: Variation) -> Aligned:
    """The maps of the best latents, into the basis of the first model.

    Where it has moved itself, the others follow it back: g_1⁻¹ g_m gives the same models between (third paper).  Gains
    and shares of tensors hold only in the basis that they were learned in, so with these all stay there, the first
    moved by its own map.
    """
    spec, count = start.ensemble.spec, len(bases)
    sides = [side for side in run.steps.objective.sides if isinstance(side, Coordinates)]
    still = count - len(sides)
    soft = [Alignment.identity(spec)] * still + [side.alignment(spec, hard=False) for side in sides]
    hard = [Alignment.identity(spec)] * still + [side.alignment(spec) for side in sides]
    scales = [1.0] * still + [side.factor() for side in sides]
    gains = [dict[str, torch.Tensor]()] * still + [side.learned_gains() for side in sides]
    framed = not still and bool({"gains", "shares"} & set(run.options.learn))
    if not still and not framed:
        back = hard[0].inverse()
        soft = hard = [Alignment.identity(spec), *(back.compose(g) for g in hard[1:])]
    first = Move(hard[0], stays=not framed)
    others = [
        replace(variation.move(bases[m], soft[m], hard[m], scales[m] / scales[0]), gains=gains[m])
        for m in range(1, count)
    ]
    paces = (*[dict[str, list[torch.Tensor]]()] * still, *(side.learned_paces() for side in sides))
    reason = why_canonical(spec, run.options)
    learned = Aligned(start.ensemble, (first, *others), start.course, reason, paces if any(paces) else ())
    return replace(learned, course=_course(run, start, learned, scales, variation))


def _course(run: Run, start: Aligned, learned: Aligned, scales: list[float], variation: Variation) -> dict[str, Any]:
    """How the run went, as plain data."""
    factors = [scale / scales[0] for scale in scales[1:]]
    course = dict(start.course)
    if "universe" in course:
        moved = [transport(form, g) for form, g in zip(start.ensemble.forms, learned.alignments, strict=True)]
        spread = start.ensemble.centre(moved)[1]
        course["universe"] = {**course["universe"], "objective": [*course["universe"]["objective"], spread]}
    best = next(point for point in run.history if point.step == run.best_step)
    course["learning"] = {
        "options": write_section(run.options),
        "about": run.facts,
        "ends": list(run.ends),
        "best_step": run.best_step,
        "midpoint": best.midpoint,
        "barrier": best.midpoint - sum(run.ends) / len(run.ends),
        "function_kept": variation.exact,
        "stream_scale": factors[0] if len(factors) == 1 else factors,
        "norms_with_learned_gains": len(learned.moves[1].gains),
        **({"paces": [mean_paces(own) for own in learned.paces]} if learned.paces else {}),
        "history": [asdict(point) for point in run.history],
    }
    return course


def mean_paces(paces: Paces) -> dict[str, float]:
    """Of all entries of every stored tensor."""
    return {key: sum(float(part.mean()) for part in parts) for key, parts in paces.items()}


def why_canonical(spec: ModelSpec, options: LearnedMatching) -> str | None:
    """Why the first model cannot stay as it is after learning with these options; `spec` is in canonical form.

    What a LayerNorm hands on is γ ⊙ n with 1ᵀn = 0, so the part of its readers along 1/γ does nothing.  Averaged with a
    model of other gains it would; canonical forms do not have that part.  Where both sides learn, gains belong to the
    basis that A is rotated into, and there the gains of A's own basis mean nothing.
    """
    if "shares" in options.learn:
        return "shares of tensors learn, and what the average of those is was learned of canonical forms"
    if "gains" not in options.learn:
        return None
    if options.two_sided:
        return "gains learn in a basis that A is rotated into, too"
    gained = (spec.norms[name] for one in free_gains(spec) for name in one.norms)
    if any(norm.kind == "layer" for norm in gained):
        return "gains of LayerNorms learn, and the average is what was learned only of readers that are centred"
    return None


def _bases(start: Aligned, folder: Path | None) -> list[Alignment]:
    """Where every model begins, in the basis of the first; those of a run that is kept in `folder`, if there is one."""
    first, *others = start.alignments
    if not start.moves[0].stays:
        others = [first.inverse().compose(g) for g in others]
    if folder is not None and load_state(folder) is not None:
        others = [Alignment.load(folder / BASE / str(m)) for m in range(1, len(start.moves))]
    return [first, *(_laid_out(g.to("cpu")) for g in others)]


def _laid_out(g: Alignment) -> Alignment:
    """The same numbers in fresh memory, row by row: products of what lies otherwise, as in a file, round otherwise."""

    def fresh(m: Map) -> Map:
        return type(m).from_tensors({name: x.contiguous().clone() for name, x in m.tensors().items()})

    return Alignment({space: fresh(m) for space, m in g.maps.items()}, g.bases)
