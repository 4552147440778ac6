"""`onebasin run RECIPE`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onebasin.cli.recipe import DryRun, Json, Quiet, Resume, Settings, carry_out


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
