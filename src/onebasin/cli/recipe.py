"""`onebasin run RECIPE`, and what all verbs that follow a recipe share: flags, and the way from them to a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onebasin.cli.output import print_json
from onebasin.cli.watching import LogFile, LogTo, Quiet, Verbose, Watching, stamped, watch
from onebasin.errors import OnebasinError
from onebasin.processes.ranks import rank

if TYPE_CHECKING:
    from onebasin.recipes import Recipe

FORMS = (
    "images:FILE.npz, images:FOLDER, text:FILE, labelled:FILE.csv|jsonl, pairs:FILE.csv|jsonl, hub:DATASET:SPLIT, "
    "builtin:shapes|python, synthetic."
)

Out = Annotated[Path, typer.Option("--out", "-o", help="New folder.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the output folder if an earlier run of onebasin wrote it.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any key of the recipe, like weight.sweeps=5; repeatable."),
]
Weights = Annotated[
    list[str] | None,
    typer.Option("--task-weight", metavar="NAME=NUMBER", help="How much one of several tasks counts, 1 if not given."),
]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.", show_default="auto")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, print the plan, write nothing.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with learning that was interrupted.")]
Json = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]


def given(**flags: Any) -> dict[str, Any]:
    """The flags that were given, those with a double underscore as keys of a section; lists by commas or repeated."""
    document: dict[str, Any] = {}
    for name, value in flags.items():
        if value is None or value == []:
            continue
        section, _, key = name.rpartition("__")
        inside = document.setdefault(section, {}) if section else document
        if isinstance(value, list):
            value = [part for one in value for part in one.split(",")]
        inside[key] = str(value) if isinstance(value, Path) else value
    return document


def named(flag: str, values: list[str] | None) -> dict[str, str]:
    """NAME=VALUE of a flag that is given several times, by name."""
    found: dict[str, str] = {}
    for value in values or ():
        name, equals, rest = value.partition("=")
        if not equals or not re.fullmatch(r"[\w.-]+", name) or name in found:
            what = f"{flag} {name} is given twice" if name in found else f"{flag} is given without a name"
            step = f"write {flag} NAME=..., each with a name of its own"
            raise OnebasinError(what, expected="NAME=...", found=value, next_step=step)
        found[name] = rest
    return found


def task_of(tasks: list[str] | None) -> str | dict[str, str] | None:
    """What `--task` says: one task as it is, or, by NAME=TASK, several."""
    if not tasks:
        return None
    if len(tasks) == 1 and not re.match(r"[\w.-]+=", tasks[0]):
        return tasks[0]
    return named("--task", tasks)


def weights_of(weights: list[str] | None) -> dict[str, Any] | None:
    """What `--task-weight` says."""
    return named("--task-weight", weights) or None


def from_flags(verb: str, models: list[str], settings: list[str] | None, **flags: Any) -> Recipe:
    """The recipe that a command line describes."""
    from onebasin.recipes import parse
    from onebasin.recipes.document import FORMAT

    document = {"onebasin": FORMAT, "verb": verb, "models": models, **given(**flags)}
    return parse(document, settings or ())


def carry_out(
    recipe: Recipe, watching: Watching, *, json: bool, dry_run: bool = False, resume: bool = False,
    overwrite: bool = False,
) -> None:  # fmt: skip
    """Run a recipe, or only its checks, and print what came of it; of several processes the first prints."""
    from onebasin.recipes import prepare, run

    if dry_run and rank():
        return
    with watch(watching) as (watched, told):

        def say(text: str) -> None:
            watched.file(stamped(text))
            if not watching.quiet and not rank():
                typer.echo(f"onebasin: {text}", err=True)

        if dry_run:
            report = prepare(recipe, watched.tick, overwrite=overwrite).as_dict()
        else:
            report = run(recipe, watched.tick, resume=resume, overwrite=overwrite, say=say, told=told)
    if not rank():
        _print(recipe, report, json=json, dry_run=dry_run)


def _print(recipe: Recipe, report: dict[str, Any], *, json: bool, dry_run: bool) -> None:
    from onebasin.cli.results import print_aligned, print_measured, print_plan
    from onebasin.recipes import Barrier

    if json:
        print_json(report)
    elif dry_run:
        print_plan(report)
    else:
        (print_measured if isinstance(recipe, Barrier) else print_aligned)(report)
        if recipe.write.out is not None:
            typer.echo(f"written to {recipe.write.out}")


def run(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="A YAML file; names in it are relative to it.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="New folder, in place of the one that the recipe names.")
    ] = None,
    settings: Settings = None,
    dry_run: DryRun = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_file: LogFile = None,
    log_to: LogTo = None,
) -> None:
    """Align, merge or measure as a file says.  The folders that this writes hold the recipe that made them."""
    from onebasin.recipes import load

    found = load(recipe, settings or (), out=out)
    watching = Watching(quiet, verbose, log_file, log_to)
    carry_out(found, watching, json=json, dry_run=dry_run, resume=resume, overwrite=overwrite)
