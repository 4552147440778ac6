"""`onebasin barrier A B [C ...] --task TASK`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onebasin.cli.recipe import FORMS, Device, DryRun, Json, Quiet, Settings, carry_out, from_flags


def barrier(
    models: Annotated[list[str], typer.Argument(metavar="A B [C ...]", help="Checkpoint folders or Hub ids.")],
    task: Annotated[str, typer.Option(help=f"What to measure on: {FORMS}")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="New folder for barrier.json, barrier.svg and recipe.yaml.")
    ] = None,
    path: Annotated[
        str | None, typer.Option(help="factor (stock models) or circuit (QK and OV products).", show_default="factor")
    ] = None,
    points: Annotated[
        int | None,
        typer.Option(help="Points on the path, both ends included; of three models on a side.", show_default="11"),
    ] = None,
    samples: Annotated[int | None, typer.Option(help="How many images, texts or windows.")] = None,
    length: Annotated[int | None, typer.Option(help="Tokens per text or window.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples run at a time.", show_default="64")] = None,
    device: Device = None,
    settings: Settings = None,
    dry_run: DryRun = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure loss and metric between models as they are; align them first to see them aligned.

    The barrier is the largest rise of the loss above the straight line between the losses of A and B, or above the
    average of the losses of more models: over a triangle of three, at the middles of all pairs and the centre of more.
    """
    recipe = from_flags(
        "barrier", models, settings, task__data=task, task__samples=samples, task__length=length,
        task__batch_size=batch_size, path=path, points=points, device=device, write__out=out,
    )  # fmt: skip
    carry_out(recipe, json=json, quiet=quiet, dry_run=dry_run)
