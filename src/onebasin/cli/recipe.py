"""`onebasin run RECIPE`, and what all verbs that follow a recipe share: flags, and the way from them to a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onebasin.cli.output import print_json, progress, warn

if TYPE_CHECKING:
    from onebasin.recipes import Recipe

FORMS = (
    "images:FILE.npz, images:FOLDER, text:FILE, labelled:FILE.csv|jsonl, hub:DATASET:SPLIT, builtin:shapes|python, "
    "synthetic."
)

Out = Annotated[Path, typer.Option("--out", "-o", help="New folder.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any key of the recipe, like weight.sweeps=5; repeatable."),
]
Device = Annotated[str | None, typer.Option(help="auto, cpu or cuda.", show_default="auto")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, print the plan, write nothing.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with learning that was interrupted.")]
Json = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")]


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


def from_flags(verb: str, models: list[str], settings: list[str] | None, **flags: Any) -> Recipe:
    """The recipe that a command line describes."""
    from onebasin.recipes import parse
    from onebasin.recipes.document import FORMAT

    document = {"onebasin": FORMAT, "verb": verb, "models": models, **given(**flags)}
    return parse(document, settings or ())


def carry_out(recipe: Recipe, *, json: bool, quiet: bool, dry_run: bool = False, resume: bool = False) -> None:
    """Run a recipe, or only its checks, and print what came of it."""
    from onebasin.cli.results import print_aligned, print_measured, print_plan
    from onebasin.recipes import Barrier, prepare, run
    from onebasin.recipes.notes import keep_warnings

    def say(text: str) -> None:
        if not quiet:
            typer.echo(f"onebasin: {text}", err=True)

    with keep_warnings(warn), progress(quiet) as tick:
        report = prepare(recipe, tick).as_dict() if dry_run else run(recipe, tick, resume=resume, say=say)
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
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Align, merge or measure as a file says.  The folders that this writes hold the recipe that made them."""
    from onebasin.recipes import load

    found = load(recipe, settings or (), out=out)
    carry_out(found, json=json, quiet=quiet, dry_run=dry_run, resume=resume)
