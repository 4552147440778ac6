"""Carry out a recipe.  What was measured comes back as plain data and lies in the output folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from onebasin import __version__
from onebasin.checkpoint import Checkpoint, json_text, whole_folder
from onebasin.checkpoint.dtypes import code_of
from onebasin.ensemble.aligned import Aligned
from onebasin.ensemble.words import describe_written, name_of
from onebasin.errors import OnebasinError
from onebasin.events import Callback
from onebasin.landscape import Curve, Surface, measure
from onebasin.match.options import Gathering
from onebasin.methods.method import BATCH, Job, Tick, silent
from onebasin.paths import path_between
from onebasin.paths.points import grid
from onebasin.processes.devices import pick_device
from onebasin.processes.ranks import rank
from onebasin.processes.world import World, processes
from onebasin.recipes.cards import card_of
from onebasin.recipes.document import plain
from onebasin.recipes.measuring import judge
from onebasin.recipes.merging import Merging, complete
from onebasin.recipes.notes import keep_warnings
from onebasin.recipes.plan import Plan, check_average, prepare
from onebasin.recipes.recipe import Align, Barrier, Merge, Model, Recipe
from onebasin.recipes.state import check_dependencies, check_state, kept_state
from onebasin.report import plot
from onebasin.report.card import linear_merge
from onebasin.report.html import write_report
from onebasin.report.pictures import ternary
from onebasin.report.similarity import similarity
from onebasin.tasks.mixture import MEAN
from onebasin.verification.certificate import certificate, check_exact, exactness, versions
from onebasin.verification.written import check_written, measure_written

ALONE = Merging()  # an alignment without a merge


def run(
    recipe: Recipe, tick: Tick = silent, *, resume: bool = False, overwrite: bool = False, keep: bool = True,
    say: Callable[[str], None] = lambda text: None, told: Callback | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Check, align or measure, write.  Returns the certificate, or the curve or surface with its barrier.

    `resume` goes on with learning that was interrupted: its state lies beside the output folder until that is written;
    without `keep` there is none.  `overwrite` replaces an earlier output.  `say` is told which method is taken where
    the recipe names none, and `told` how learning goes.  Several processes share learning and nothing else: the first
    does the rest, and the others get nothing back.
    """
    if rank() and not recipe.learns:
        return {}
    together = processes(pick_device(recipe.device)) if recipe.learns else nullcontext(World())
    with together as world, keep_warnings() as notes:
        state = Path(f"{recipe.write.out}.state") if keep and not isinstance(recipe, Barrier) else None
        plan = _checked(recipe, state, tick, world, resume=resume, overwrite=overwrite)
        if isinstance(recipe, Barrier):
            return _measure(plan, recipe, notes, tick)
        if plan.because is not None:
            say(plan.because)
        recipe.memory.keep(plan.device)
        with kept_state(state, plan, first=not world.rank):
            plan, aligned, made = complete(plan, align(plan, state, tick, told), world, tick)
            if world.rank:
                return {}
            with plan.resting():
                aligned = certify(plan, aligned.moved_once(), notes, tick, made)
                return write(plan, aligned, tick, made)


def _checked(
    recipe: Recipe, state: Path | None, tick: Tick, world: World, *, resume: bool, overwrite: bool
) -> Plan:  # fmt: skip
    """The plan of a run; what stops one process stops all."""
    plan, problem = None, None
    try:
        if state is not None:
            check_state(state, resume=resume)
        plan = prepare(recipe, tick, overwrite=overwrite)
        if state is not None:
            check_dependencies(state, plan)
    except OnebasinError as error:
        problem = error
    world.check(problem)
    assert plan is not None
    return plan


def align(plan: Plan, state: Path | None, tick: Tick = silent, told: Callback | None = None) -> Aligned:
    """Carry out the method of a plan.  Learning keeps its state in `state`, if that is given."""
    recipe, method = plan.alignment
    assert plan.ensemble is not None
    size, gathering = recipe.task.batch_size if recipe.task else BATCH, recipe.universe or Gathering()
    job = Job(plan.device, state, gathering, size, tick, recipe.memory, told or Callback())
    return method.run(plan.ensemble, plan.data, job)


def certify(
    plan: Plan, aligned: Aligned, notes: Iterable[str] = (), tick: Tick = silent, made: Merging = ALONE
) -> Aligned:
    """The result with its certificate: how the models were aligned, and how exact that is."""
    tick("certificate")
    recipe, method = plan.alignment
    certificates = _certificates(recipe, aligned)
    if method.exact:
        check_exact(certificates)
    files = _check_files(recipe, made.parts(plan, aligned))
    report = {
        "verb": recipe.verb,
        "models": [name_of(model.path) for model in recipe.models],
        "method": method.name,
        **({} if plan.because is None else {"because": plan.because}),
        **aligned.course,
        "inputs": None if plan.data is None else dict(plan.data.about),
        "device": str(plan.device),
        **({"shares": list(recipe.lambdas)} if isinstance(recipe, Merge) else {}),
        **certificates,
        "written": files,
        "warnings": list(notes),
    }
    return replace(aligned, certificate=report)


def _certificates(recipe: Align | Merge, aligned: Aligned) -> dict[str, Any]:
    """The certificate of the aligned model, or of all of them where there are more than one; of the reference as well
    where it could not stay as it was."""
    each = [{**certificate(aligned, which), **similarity(aligned, which)} for which in range(1, len(aligned.moves))]
    kept = {} if aligned.reason is None else {"reference": exactness(aligned, 0)}
    if len(each) == 1:
        return {**each[0], **kept}
    names = [name_of(model.path) for model in recipe.models[1:]]
    shared = {key: each[0][key] for key in ("gauge", "versions")}
    return {**shared, **kept, "aligned": [{"model": x, **own} for x, own in zip(names, each, strict=True)]}


def with_files(plan: Plan, aligned: Aligned, made: Merging = ALONE) -> Aligned:
    """A certified result that is written in another dtype than it was certified for: its files are measured again."""
    report = aligned.certificate
    gone = tuple(map(describe_written, report["written"].values()))
    with keep_warnings() as notes:
        files = _check_files(plan.alignment[0], made.parts(plan, aligned))
    kept = [note for note in report["warnings"] if not note.startswith(gone)]
    return replace(aligned, certificate={**report, "written": files, "warnings": [*kept, *notes]})


def _check_files(recipe: Align | Merge, parts: Mapping[str, Checkpoint]) -> dict[str, Any]:
    """What rounding does to every folder that will be written, by its name in the output."""
    found = {}
    for folder, part in parts.items():
        found[folder or "."] = own = measure_written(part, code_of(recipe.write.dtype))
        check_written(own)
    return found


def write(plan: Plan, aligned: Aligned, tick: Tick = silent, made: Merging = ALONE) -> dict[str, Any]:
    """The output folder: checkpoints, maps, certificate, recipe, model card, report; all of it or nothing.

    Returns the certificate; a merged model is measured as it was written, and its scores are part of it.
    """
    recipe, _ = plan.alignment
    check_average(recipe)
    out, parts = Path(str(recipe.write.out)), made.parts(plan, aligned)
    with whole_folder(out, overwrite=plan.overwrite) as partial:
        for folder, part in parts.items():
            part.save(
                partial / folder, dtype=recipe.write.dtype, max_shard_size=recipe.write.max_shard_size,
                progress=lambda done, total: tick("writing", done, total),
            )  # fmt: skip
        aligned.save_maps(partial)
        report = dict(aligned.certificate)
        if isinstance(recipe, Merge):
            report |= judge(plan, recipe, aligned, made, Checkpoint.open(partial), tick)
        (partial / "certificate.json").write_text(json_text(report))
        (partial / "recipe.yaml").write_text(recipe_text(plan, out), encoding="utf-8")
        (partial / "README.md").write_text(card_of(plan, report, partial, next(iter(parts))), encoding="utf-8")
        if isinstance(recipe, Align) and recipe.write.mergekit:
            folders = [str(out.resolve() / folder) for folder in parts]
            whole = [_address(recipe.models[0]), *folders] if aligned.reason is None else folders
            (partial / "mergekit.yaml").write_text(linear_merge(whole), encoding="utf-8")
        write_report(partial)
    return report


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
        with whole_folder(out, overwrite=plan.overwrite) as folder:
            text = json_text({"onebasin": __version__, **report})
            (folder / "barrier.json").write_text(text, encoding="utf-8")
            (folder / "recipe.yaml").write_text(recipe_text(plan, out), encoding="utf-8")
            if isinstance(found, Curve):
                name = f"{names[0]} to {names[1]}, {found.path} path"
                shared = None if found.evaluations[0].metrics else "loss"  # tasks may have no metric in common
                plot(curves_of(name, found), folder / "barrier.svg", metric=shared)
            elif len(names) == 3:
                (folder / "barrier.svg").write_text(ternary(report), encoding="utf-8")
            write_report(folder)
    return report


def curves_of(name: str, found: Curve) -> dict[str, Curve]:
    """The curve by its name; of several tasks those of each, and their mean."""
    return {f"{MEAN}: {name}": found, **found.parts} if found.parts else {name: found}


def landscape(plan: Plan, recipe: Barrier, tick: Tick = silent) -> Surface:
    """What a barrier is read from: a curve between two models, a surface over the averages of more."""
    assert plan.data is not None
    total, done = len(grid(len(plan.models), recipe.points)), count(1)
    tick("measuring", 0, total)
    return measure(
        path_between(recipe.path, *plan.models), plan.data, recipe.points, batch_size=recipe.task.batch_size,
        device=plan.device, tick=lambda place: tick(f"measured {place[-1]:.2g} of the last model", next(done), total),
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
