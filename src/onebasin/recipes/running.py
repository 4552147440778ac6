"""Carry out a recipe.  What was measured comes back as plain data and lies in the output folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from onebasin import __version__
from onebasin.checkpoint import whole_folder
from onebasin.errors import BadOutput
from onebasin.landscape import Curve, Simplex, Surface, measure, measure_simplex, path_between
from onebasin.landscape.curve import POINTS
from onebasin.landscape.simplex import grid
from onebasin.recipes.document import plain
from onebasin.recipes.methods import Found, find
from onebasin.recipes.notes import noted
from onebasin.recipes.plan import Plan, Tick, dtype_code, parts_of, prepare, silent
from onebasin.recipes.recipe import Align, Barrier, Merge, Recipe
from onebasin.recipes.sections import Model
from onebasin.report import plot
from onebasin.report.card import aligned_text, merged_text, model_card, name_of
from onebasin.report.certificate import certificate, exactness
from onebasin.report.html import write_report
from onebasin.report.mergekit import linear_merge
from onebasin.report.ternary import ternary
from onebasin.report.versions import versions
from onebasin.widening.widen import to_one_size


def run(
    recipe: Recipe, tick: Tick = silent, *, resume: bool = False, say: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Check, align or measure, write.  Returns the certificate, or the curve or surface with its barrier.

    `resume` goes on with learning that was interrupted: its state lies beside the output folder until that is written.
    `say` is told which method is taken where the recipe names none.
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
        plan = prepare(recipe, tick)
        if plan.because is not None:
            say(plan.because)
        assert not isinstance(plan.recipe, Barrier)
        report = _align(plan, plan.recipe, state, notes, tick)
        shutil.rmtree(state, ignore_errors=True)
        return report


def _align(plan: Plan, recipe: Align | Merge, state: Path, notes: list[str], tick: Tick) -> dict[str, Any]:
    found = find(plan, recipe, state, tick)
    tick("certificate")
    report = certify(plan, recipe, found, notes)
    write(plan, recipe, found, report, tick)
    return report


def certify(plan: Plan, recipe: Align | Merge, found: Found, notes: Iterable[str] = ()) -> dict[str, Any]:
    """How the models were aligned, and how exact that is: what `certificate.json` holds."""
    return {
        "verb": recipe.verb,
        "models": [name_of(model.path) for model in recipe.models],
        "method": recipe.method,
        **({} if plan.because is None else {"because": plan.because}),
        **found.told,
        "inputs": None if plan.data is None else dict(plan.data.about),
        "device": str(plan.device),
        **({"weights": list(recipe.shares)} if isinstance(recipe, Merge) else {}),
        **_certified(plan, found),
        "warnings": list(notes),
    }


def _certified(plan: Plan, found: Found) -> dict[str, Any]:
    """The certificate of the aligned model, or of all of them where there are more than one; of the reference as well
    where it could not stay as it was."""
    each = [certificate(model, pair) for model, pair in zip(plan.models[1:], found.aligned, strict=True)]
    first = found.aligned[0]
    kept = {} if first.reason is None else {"reference": exactness(plan.models[0], first.a)}
    if len(each) == 1:
        return {**each[0], **kept}
    names = [name_of(model.path) for model in plan.recipe.models[1:]]
    shared = {key: each[0][key] for key in ("gauge", "versions")}
    return {**shared, **kept, "aligned": [{"model": x, **own} for x, own in zip(names, each, strict=True)]}


def write(plan: Plan, recipe: Align | Merge, found: Found, report: dict[str, Any], tick: Tick = silent) -> None:
    """The output folder: checkpoints, maps, certificate, recipe, model card, report; all of it or nothing."""
    out, write, reason = Path(str(recipe.write.out)), recipe.write, found.aligned[0].reason
    parts = parts_of(recipe, found.models, reason)
    with whole_folder(out) as partial:
        for folder, part in parts.items():
            part.save(
                partial / folder, dtype=dtype_code(write.dtype), max_shard_size=write.max_shard_size,
                progress=lambda done, total: tick("writing", done, total),
            )  # fmt: skip
        found.save(partial)
        (partial / "certificate.json").write_text(json.dumps(report, indent=2) + "\n")
        (partial / "recipe.yaml").write_text(recipe_text(plan, out), encoding="utf-8")
        (partial / "README.md").write_text(_card(recipe), encoding="utf-8")
        if isinstance(recipe, Align) and recipe.write.mergekit:
            folders = [str(out.resolve() / folder) for folder in parts]
            text = linear_merge([_address(recipe.models[0]), *folders] if reason is None else folders)
            (partial / "mergekit.yaml").write_text(text, encoding="utf-8")
        write_report(partial)


def _card(recipe: Align | Merge) -> str:
    names = [name_of(model.path) for model in recipe.models]
    if isinstance(recipe, Align):
        return model_card("Aligned model", names, aligned_text(names, str(recipe.method)))
    return model_card("Merged model", names, merged_text(names, recipe.shares, str(recipe.method)))


def _address(model: Model) -> str:
    """A model as mergekit names it: a folder, or a Hub id with its revision."""
    if Path(model.path).is_dir():
        return str(Path(model.path).resolve())
    return f"{model.path}@{model.revision}" if model.revision else model.path


def _measure(plan: Plan, recipe: Barrier, notes: list[str], tick: Tick) -> dict[str, Any]:
    out = Path(recipe.write.out) if recipe.write.out is not None else None
    names = [name_of(model.path) for model in recipe.models]
    found = landscape(plan, recipe, tick)
    called = {"a": names[0], "b": names[1]} if len(names) == 2 else {"models": names}
    report = {**called, **found.as_dict(), "warnings": list(notes), "versions": versions(),
              "recipe": recorded(plan, out or Path())}  # fmt: skip
    if out is not None:
        with whole_folder(out) as folder:
            text = json.dumps({"onebasin": __version__, **report}, indent=2)
            (folder / "barrier.json").write_text(text + "\n", encoding="utf-8")
            (folder / "recipe.yaml").write_text(recipe_text(plan, out), encoding="utf-8")
            if isinstance(found, Curve):
                plot({f"{names[0]} to {names[1]}, {found.path} path": found}, folder / "barrier.svg")
            elif len(names) == 3:
                (folder / "barrier.svg").write_text(ternary(report), encoding="utf-8")
            write_report(folder)
    return report


def landscape(plan: Plan, recipe: Barrier, tick: Tick = silent) -> Curve | Surface:
    """What a barrier is read from: a curve between two models, a surface over the simplex of more."""
    return _curve(plan, recipe, tick) if len(plan.models) == 2 else _surface(plan, recipe, tick)


def _curve(plan: Plan, recipe: Barrier, tick: Tick) -> Curve:
    assert plan.data is not None
    a, b = plan.models
    points, done = recipe.points or POINTS, count(1)
    tick("measuring", 0, points)
    return measure(
        path_between(recipe.path, a, b), plan.data, points, batch_size=recipe.task.batch_size, device=plan.device,
        tick=lambda weight: tick(f"measured λ = {weight:.2g}", next(done), points),
    )  # fmt: skip


def _surface(plan: Plan, recipe: Barrier, tick: Tick) -> Surface:
    assert plan.data is not None
    total, done = len(grid(len(plan.models), recipe.points)), count(1)
    tick("measuring", 0, total)
    simplex = Simplex(to_one_size(*plan.models))
    return measure_simplex(
        simplex, plan.data, recipe.points, batch_size=recipe.task.batch_size, device=plan.device,
        tick=lambda point: tick("measured", next(done), total),
    )  # fmt: skip


def recorded(plan: Plan, folder: Path) -> dict[str, Any]:
    """The recipe as a document in `folder`, with the commits that Hub ids stood for."""
    models = tuple(
        model if Path(model.path).is_dir() else replace(model, revision=end.store.folder.name)
        for model, end in zip(plan.recipe.models, plan.models, strict=True)
    )
    return plain(replace(plan.recipe, models=models), folder)


def recipe_text(plan: Plan, folder: Path) -> str:
    """The recipe as a file in `folder`."""
    style = {"sort_keys": False, "allow_unicode": True, "default_flow_style": None, "width": 120}
    return str(yaml.safe_dump(recorded(plan, folder), **style))
