"""Is the merged model better than those it was made of?  Measured on the files, or said to be unknown."""

from __future__ import annotations

from typing import Any

from onebasin.checkpoint import Checkpoint
from onebasin.ensemble.words import letter, name_of
from onebasin.errors import Incompatible
from onebasin.landscape.scores import score, verdict
from onebasin.methods.method import BATCH, Method, Tick, silent
from onebasin.paths import FactorPath
from onebasin.recipes.plan import Plan
from onebasin.recipes.recipe import Merge
from onebasin.tasks import Task

PLAIN, MERGED = "plain average", "merged"


def judge(plan: Plan, recipe: Merge, method: Method, merged: Checkpoint, tick: Tick = silent) -> dict[str, Any]:
    """`scores` of all models, their plain average, the merged model and the ensemble; and a `verdict` in words."""
    names = [name_of(model.path) for model in recipe.models]
    if plan.data is None or not plan.data.labelled:
        return {"scores": None, "verdict": unknown(names, plan.data)}
    task, held = method.to_measure_on(plan.data)
    members = {f"{letter(i)} ({name})": letter(i) for i, name in enumerate(names)}
    models, missing = dict(zip(members, plan.models, strict=True)), {}
    try:
        models[PLAIN] = FactorPath(*plan.models).at(recipe.lambdas)
    except Incompatible as refusal:
        missing[PLAIN] = f"the models differ in shape ({refusal.tensor})"
    models[MERGED] = merged
    scores = score(
        {name: (model, task) for name, model in models.items()}, list(members), held=held, missing=missing,
        batch_size=recipe.task.batch_size if recipe.task else BATCH, device=plan.device, tick=tick,
    )  # fmt: skip
    return {"scores": scores.as_dict(), "verdict": verdict(scores, members, MERGED)}


def unknown(names: list[str], data: Task | None) -> str:
    """Why nothing is known of the quality, and how to know."""
    why = "there was no --task" if data is None else f"{data.name} has no labels"
    command = f"onebasin eval {' '.join(names)} OUT --ensemble --task TASK"
    return f"quality unknown, {why}; to know it: {command}"
