"""Is the merged model better than those it was made of?  Measured on the files, or said to be unknown."""

from __future__ import annotations

from typing import Any

from onebasin.checkpoint import Checkpoint
from onebasin.ensemble.aligned import Aligned
from onebasin.ensemble.words import name_of
from onebasin.errors import Incompatible
from onebasin.landscape.scores import score, verdict
from onebasin.methods.method import BATCH, Tick, silent
from onebasin.paths import FactorPath
from onebasin.recipes.merging import HEALED, MERGED, PLAIN, Merging, after, members
from onebasin.recipes.plan import Plan, parts_of
from onebasin.recipes.recipe import Merge
from onebasin.tasks import AnyTask


def judge(
    plan: Plan, recipe: Merge, aligned: Aligned, made: Merging, written: Checkpoint, tick: Tick = silent
) -> dict[str, Any]:
    """`scores` of all models, their plain average, the merged model and the ensemble; and a `verdict` in words.

    `written` is the merged model, or what training has made of it; then `equal_steps` compares it with what the same
    training has made of the others.
    """
    names = [name_of(model.path) for model in recipe.models]
    task = plan.samples.measure
    if task is None:
        return {"scores": None, "verdict": unknown(names, plan.data)}
    rows = members(recipe)
    models, missing = dict(zip(rows, plan.models, strict=True)), {}
    try:
        models[PLAIN] = FactorPath(*plan.models).at(recipe.lambdas)
    except Incompatible as refusal:
        missing[PLAIN] = f"the models differ in shape ({refusal.tensor})"
    if made.trained:
        models[MERGED] = parts_of(recipe, aligned.models, aligned.reason)[""]
        models |= {**made.trained, HEALED: written}
    else:
        models[MERGED] = written
    scores = score(
        {name: (model, task) for name, model in models.items()}, list(rows), held=plan.samples.held, missing=missing,
        batch_size=recipe.task.batch_size if recipe.task else BATCH, device=plan.device, tick=tick,
    )  # fmt: skip
    found = {"scores": scores.as_dict(), "verdict": verdict(scores, rows, HEALED if made.trained else MERGED)}
    others = {after(row): called for row, called in {**rows, PLAIN: f"the {PLAIN}"}.items()}
    if set(others) & set(made.trained):
        found["equal_steps"] = verdict(scores, others, HEALED)
    return found


def unknown(names: list[str], data: AnyTask | None) -> str:
    """Why nothing is known of the quality, and how to know."""
    why = "there was no --task" if data is None else f"{data.name} has no labels"
    command = f"onebasin eval {' '.join(names)} OUT --ensemble --task TASK"
    return f"quality unknown, {why}; to know it: {command}"
