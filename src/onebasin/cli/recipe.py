"""What the verbs that follow a recipe share: their flags, and the way from flags to a run and to what is printed."""

from __future__ import annotations

import json as _json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    from onebasin.cli.output import progress
    from onebasin.cli.results import print_aligned, print_measured, print_plan
    from onebasin.recipes import Barrier, prepare, run
    from onebasin.recipes.notes import keep_warnings

    def say(text: str) -> None:
        if not quiet:
            typer.echo(f"onebasin: {text}", err=True)

    with keep_warnings(lambda text: typer.echo(f"onebasin: warning: {text}", err=True)), progress(quiet) as tick:
        report = prepare(recipe, tick).as_dict() if dry_run else run(recipe, tick, resume=resume, say=say)
    show: Callable[[dict[str, Any]], None] = print_measured if isinstance(recipe, Barrier) else print_aligned
    if json:
        typer.echo(_json.dumps(report, indent=2))
    elif dry_run:
        print_plan(report)
    else:
        show(report)
        if recipe.write.out is not None:
            typer.echo(f"written to {recipe.write.out}")
