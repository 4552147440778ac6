"""`onebasin eval MODEL... --task TASK`."""

from __future__ import annotations

from typing import Annotated

import typer

from onebasin.cli.output import print_json
from onebasin.cli.recipe import FORMS, Device, Json, Weights, task_of, weights_of
from onebasin.cli.watching import LogFile, Quiet, Verbose, Watching, watch


def evaluate(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="Checkpoint folders or Hub ids.")],
    task: Annotated[list[str], typer.Option(help=f"What to measure on: {FORMS} Several: NAME=TASK, repeated.")],
    task_weight: Weights = None,
    ensemble: Annotated[
        bool, typer.Option("--ensemble", help="Also all models together: their probabilities, averaged.")
    ] = False,
    samples: Annotated[int | None, typer.Option(help="How many images, texts or windows.")] = None,
    length: Annotated[int | None, typer.Option(help="Tokens per text or window.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples run at a time.", show_default="64")] = None,
    device: Device = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_file: LogFile = None,
) -> None:
    """Measure loss and metric of models, of any class that the task fits, with standard errors.

    An ensemble needs models with the same outputs: one list of classes, or one tokenizer.
    """
    from onebasin.api import evaluate as measure
    from onebasin.cli.results import print_scores

    with watch(Watching(quiet, verbose, log_file)) as (watched, _):
        found = measure(
            *models, task=task_of(task) or "", task_weights=weights_of(task_weight), ensemble=ensemble,
            samples=samples, length=length, batch_size=batch_size, device=device or "auto", tick=watched.tick,
        ).as_dict()  # fmt: skip
    print_json(found) if json else print_scores(found)
