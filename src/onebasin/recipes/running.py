"""Carry out a recipe.  What was measured comes back as plain data and lies in the output folder."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from onebasin import __version__
from onebasin.aligning import Aligned
from onebasin.checkpoint import whole_folder
from onebasin.errors import BadOutput
from onebasin.landscape import measure, path_between
from onebasin.recipes.document import plain
from onebasin.recipes.methods import find
from onebasin.recipes.notes import noted
from onebasin.recipes.plan import Plan, Tick, dtype_code, parts_of, prepare, silent
from onebasin.recipes.recipe import Align, Barrier, Merge, Model, Recipe
from onebasin.report import plot
from onebasin.report.card import model_card, name_of
from onebasin.report.certificate import certificate
from onebasin.report.html import write_report
from onebasin.report.mergekit import linear_merge
from onebasin.report.versions import versions


def run(recipe: Recipe, tick: Tick = silent, *, resume: bool = False) -> dict[str, Any]:
    """Check, align or measure, write.  Returns the certificate, or the curve with its barrier.

    `resume` goes on with learning that was interrupted: its state lies beside the output folder until that is written.
    """
    with noted() as notes:
        if isinstance(recipe, Barrier):
            return _measure(prepare(recipe, tick), recipe, notes, tick)
        state = Path(f"{recipe.write.out}.state")
        if state.exists() and not resume:
            raise BadOutput(
                "Learning that was interrupted has left its state beside the output folder",
                found=state,
                next_step="give --resume to go on with it, or remove it to begin anew",
            )
        report = _align(prepare(recipe, tick), recipe, state, notes, tick)
        shutil.rmtree(state, ignore_errors=True)
        return report


def _align(plan: Plan, recipe: Align | Merge, state: Path, notes: list[str], tick: Tick) -> dict[str, Any]:
    found, told = find(plan, recipe, state, tick)
    tick("certificate")
    report = {
        "verb": recipe.verb,
        "models": [name_of(model.path) for model in recipe.models],
        "method": recipe.method,
        **told,
        "inputs": None if plan.data is None else dict(plan.data.about),
        "device": str(plan.device),
        **({"weights": [1 - recipe.weight, recipe.weight]} if isinstance(recipe, Merge) else {}),
        **certificate(plan.b, found),
        "warnings": list(notes),
    }
    _write(plan, recipe, found, report, tick)
    return report


def _write(plan: Plan, recipe: Align | Merge, found: Aligned, report: dict[str, Any], tick: Tick) -> None:
    out, write, parts = Path(str(recipe.write.out)), recipe.write, parts_of(recipe, found.a, found.b, found.reason)
    with whole_folder(out) as partial:
        for folder, part in parts.items():
            part.save(
                partial / folder, dtype=dtype_code(write.dtype), max_shard_size=write.max_shard_size,
                progress=lambda done, total: tick("writing", done, total),
            )  # fmt: skip
        found.alignment.save(partial)
        (partial / "certificate.json").write_text(json.dumps(report, indent=2) + "\n")
        (partial / "recipe.yaml").write_text(recipe_text(plan, out), encoding="utf-8")
        (partial / "README.md").write_text(_card(recipe), encoding="utf-8")
        if isinstance(recipe, Align) and recipe.write.mergekit:
            both = [_address(recipe.models[0]), str(out.resolve())]
            canonical = [str(out.resolve() / folder) for folder in parts]
            text = linear_merge(both if found.reason is None else canonical)
            (partial / "mergekit.yaml").write_text(text, encoding="utf-8")
        write_report(partial)


def _card(recipe: Align | Merge) -> str:
    a, b = (name_of(model.path) for model in recipe.models)
    if isinstance(recipe, Align):
        kept = "close to that" if recipe.method == "soft" else "that"
        text = (
            f"{b} in the basis of {a}, by onebasin (method: {recipe.method}). The function is {kept} of the original."
        )
        return model_card("Aligned model", a, b, text)
    shares = f"{1 - recipe.weight:g} of {a} and {recipe.weight:g} of {b}"
    text = f"{shares}, aligned and averaged by onebasin (method: {recipe.method})."
    return model_card("Merged model", a, b, text)


def _address(model: Model) -> str:
    """A model as mergekit names it: a folder, or a Hub id with its revision."""
    if Path(model.path).is_dir():
        return str(Path(model.path).resolve())
    return f"{model.path}@{model.revision}" if model.revision else model.path


def _measure(plan: Plan, recipe: Barrier, notes: list[str], tick: Tick) -> dict[str, Any]:
    assert plan.data is not None
    route, done = path_between(recipe.path, plan.a, plan.b), count(1)
    tick("measuring", 0, recipe.points)
    curve = measure(
        route, plan.data, recipe.points, batch_size=recipe.task.batch_size, device=plan.device,
        tick=lambda weight: tick(f"measured λ = {weight:.2g}", next(done), recipe.points),
    )  # fmt: skip
    out = Path(recipe.write.out) if recipe.write.out is not None else None
    a, b = (name_of(model.path) for model in recipe.models)
    report = {"a": a, "b": b, **curve.as_dict(), "warnings": list(notes), "versions": versions(),
              "recipe": recorded(plan, out or Path())}  # fmt: skip
    if out is not None:
        with whole_folder(out) as folder:
            text = json.dumps({"onebasin": __version__, **report}, indent=2)
            (folder / "barrier.json").write_text(text + "\n", encoding="utf-8")
            (folder / "recipe.yaml").write_text(recipe_text(plan, out), encoding="utf-8")
            plot({f"{a} to {b}, {curve.path} path": curve}, folder / "barrier.svg")
            write_report(folder)
    return report


def recorded(plan: Plan, folder: Path) -> dict[str, Any]:
    """The recipe as a document in `folder`, with the commits that Hub ids stood for."""
    a, b = (
        model if Path(model.path).is_dir() else replace(model, revision=end.store.folder.name)
        for model, end in zip(plan.recipe.models, (plan.a, plan.b), strict=True)
    )
    return plain(replace(plan.recipe, models=(a, b)), folder)


def recipe_text(plan: Plan, folder: Path) -> str:
    """The recipe as a file in `folder`."""
    style = {"sort_keys": False, "allow_unicode": True, "default_flow_style": None, "width": 120}
    return str(yaml.safe_dump(recorded(plan, folder), **style))
