"""The method that a recipe names, carried out: from two checked models to an aligned pair."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from onebasin.aligning import Aligned, align
from onebasin.automatic import PROBES, choose
from onebasin.learn import Learned, LearnedMatching, Progress, aligned, learn
from onebasin.recipes.plan import Plan, Tick
from onebasin.recipes.recipe import Align, Merge
from onebasin.tasks import training

HELD = 1000  # samples that learning holds back, at most
BATCH = 64


def find(plan: Plan, recipe: Align | Merge, state: Path, tick: Tick) -> tuple[Aligned, dict[str, Any]]:
    """The aligned pair, and what there is to tell of how it was found.  Learning keeps its state in `state`."""
    if recipe.method in ("weight", "activation"):
        return _matched(plan, recipe, recipe.method, tick), {}
    if recipe.method == "auto":
        chosen = choose(plan.a, plan.b, plan.data, recipe.learn, device=plan.device, folder=state, tick=tick)
        return chosen.aligned, {"why": chosen.why, "starts": chosen.midpoints, "learning": course(chosen.learned)}
    assert plan.data is not None
    start = None if recipe.start == "identity" else _matched(plan, recipe, str(recipe.start), tick).matched
    held = min(HELD, max(1, len(training(plan.data)) // 10))
    how = options(recipe, labelled=plan.data.labelled)
    found = learn(
        plan.a, plan.b, start, plan.data, held, how, device=plan.device, folder=state,
        tick=lambda now: shown(now, tick),
    )  # fmt: skip
    return aligned(plan.a, plan.b, found), {"start": recipe.start, "learning": course(found)}


def _matched(plan: Plan, recipe: Align | Merge, method: str, tick: Tick) -> Aligned:
    size, batches = recipe.task.batch_size if recipe.task else BATCH, None
    if plan.data is not None and method == "activation":
        batches = [inputs for inputs, _ in plan.data.first(min(len(plan.data), PROBES)).batches(size)]
    return align(
        plan.a, plan.b, method, weight=recipe.matching, activation=recipe.activation, batches=batches,
        device=plan.device, tick=tick,
    )  # fmt: skip


def options(recipe: Align | Merge, *, labelled: bool) -> LearnedMatching:
    """The recipe's options of learning as its method has them; without labels the end points are the teachers."""
    chosen = recipe.learn or LearnedMatching()
    if recipe.method == "dual":
        chosen = replace(chosen, two_sided=True)
    if recipe.method == "soft":
        chosen = replace(chosen, permutations="soft", learn=tuple(dict.fromkeys((*chosen.learn, "heads", "units"))))
    return chosen if labelled else replace(chosen, loss="agreement")


def shown(now: Progress, tick: Tick) -> None:
    tick(f"learning: {now}", now.step, now.steps)


def course(learned: Learned) -> dict[str, Any]:
    """What learning did, as plain data."""
    return {
        "options": learned.options.as_dict(),
        "best_step": learned.best_step,
        "function_kept": learned.exact,
        "stream_scale": learned.scale,
        "history": [asdict(point) for point in learned.history],
    }
