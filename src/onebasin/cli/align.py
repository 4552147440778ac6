"""`onebasin align A B [C ...] -o OUT`, `onebasin merge A B [C ...] -o OUT`, `onebasin barrier A B [C ...]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onebasin.cli.recipe import (
    FORMS,
    Device,
    DryRun,
    Json,
    Out,
    Overwrite,
    Resume,
    Settings,
    Weights,
    carry_out,
    from_flags,
    task_of,
    weights_of,
)  # fmt: skip
from onebasin.cli.watching import LogFile, LogTo, Quiet, Verbose, Watching
from onebasin.methods.registry import names

METHODS = "\b\nMethods:\n" + "\n".join(f"  {name:<11} {summary.partition(';')[0]}" for name, summary in names().items())

Models = Annotated[
    list[str],
    typer.Argument(metavar="A B [C ...]", help="The reference, then the models that are moved: folders or Hub ids."),
]
Method = Annotated[
    str | None,
    typer.Option(
        help=f"How the models are brought together: {', '.join(names())}; listed below.",
        show_default="auto; without a head weight or activation",
    ),
]
Start = Annotated[
    str | None,
    typer.Option(help="What learning begins with: weight, activation or identity.", show_default="activation"),
]
Steps = Annotated[
    int | None, typer.Option(help="Steps of learning (auto: 300 on a GPU, 100 on a CPU).", show_default="1000")
]
Learn = Annotated[
    list[str] | None,
    typer.Option(help="What learns, by commas or repeated: residual,qk,ov (the default), heads, units, gains, shares."),
]
Universe = Annotated[
    Path | None,
    typer.Option(help="An earlier output for three models or more: only models that are new to it are aligned."),
]
Preset = Annotated[
    str | None, typer.Option(help="A named set of options of weight matching: p1-paper, p1-code or permutation.")
]
Spaces = Annotated[
    list[str] | None,
    typer.Option(help="Match only these spaces, by commas or repeated, like attention; the others stay."),
]
SEVERAL = "Several: NAME=TASK, repeated."
Task = Annotated[
    list[str] | None, typer.Option(help=f"Inputs, with labels where these are learned from: {FORMS} {SEVERAL}")
]
Measured = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        help=f"Inputs, with labels where these are learned from or the result is measured: {FORMS} {SEVERAL}",
    ),
]
Samples = Annotated[int | None, typer.Option(help="How many inputs of the task to use, if not all.")]
Length = Annotated[int | None, typer.Option(help="Tokens per text or window.")]
Dtype = Annotated[
    str | None, typer.Option(help="float32, bfloat16 (bf16) or float16 (fp16); as stored in the inputs when not given.")
]
Memory = Annotated[
    list[str] | None,
    typer.Option(metavar="gpu=16GB,host=16GB", help="The most memory to take; a part of what is free if not given."),
]
Shard = Annotated[str | None, typer.Option(help="Largest weight file, like 200MB.", show_default="5GB")]


BestShare = Annotated[
    str | None,
    typer.Option(
        help="Of two models, the share of B, from 0 to 1; best is that of the lowest loss on samples held back.",
        show_default="0.5",
    ),
]
Heal = Annotated[
    int | None, typer.Option(metavar="STEPS", help="Train the average for so many steps, on samples of the task.")
]
HealRate = Annotated[float | None, typer.Option(help="Learning rate of this training.", show_default="3e-4")]
HealCompare = Annotated[
    bool | None,
    typer.Option(
        "--heal-compare/--no-heal-compare",
        help="Train A, B and their plain average in the same way, to compare; --no-heal-compare spares it.",
        show_default="heal-compare",
    ),
]


def limited(settings: list[str] | None, memory: list[str] | None) -> list[str]:
    """The settings with those of memory, one key each."""
    return [*(settings or ()), *(f"memory.{part.strip()}" for given in memory or () for part in given.split(","))]


def number(share: str | None) -> float | str | None:
    """A number where the text is one."""
    try:
        return None if share is None else float(share)
    except ValueError:
        return share


def align(
    models: Models, out: Out, method: Method = None, preset: Preset = None, spaces: Spaces = None, task: Task = None,
    task_weight: Weights = None, samples: Samples = None, length: Length = None, start: Start = None,
    steps: Steps = None, learn: Learn = None, universe: Universe = None, device: Device = None, memory: Memory = None,
    dtype: Dtype = None, max_shard_size: Shard = None,
    mergekit: Annotated[bool, typer.Option("--mergekit", help="Also write mergekit.yaml for the average.")] = False,
    settings: Settings = None, dry_run: DryRun = False, resume: Resume = False, overwrite: Overwrite = False,
    json: Json = False, quiet: Quiet = False, verbose: Verbose = False, log_file: LogFile = None,
    log_to: LogTo = None,
) -> None:  # fmt: skip
    """Rewrite B in A's coordinates: its outputs stay the same, and its weights can now be averaged with A's.

    OUT is a stock checkpoint that averages with A's own files in any tool.  With more models OUT/b, OUT/c, ... hold
    them.  Where A cannot stay as it is (a tied head, a gain near zero), OUT/a, OUT/b, ... hold all of them.
    """
    recipe = from_flags(
        "align", models, limited(settings, memory), method=method, weight__preset=preset,
        weight__spaces=spaces, task__data=task_of(task), task__weights=weights_of(task_weight), task__samples=samples,
        task__length=length, learned__start=start, learned__steps=steps, learned__learn=learn,
        universe__folder=universe, device=device, write__out=out, write__dtype=dtype,
        write__max_shard_size=max_shard_size, write__mergekit=mergekit or None,
    )  # fmt: skip
    watching = Watching(quiet, verbose, log_file, log_to)
    carry_out(recipe, watching, json=json, dry_run=dry_run, resume=resume, overwrite=overwrite)


def merge(
    models: Models, out: Out,
    share: BestShare = None,
    shares: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Shares, divided by their sum; all the same if not given.")
    ] = None,
    method: Method = None, preset: Preset = None, spaces: Spaces = None, task: Measured = None,
    task_weight: Weights = None, samples: Samples = None,
    heal: Heal = None, heal_rate: HealRate = None, heal_compare: HealCompare = None,
    length: Length = None, start: Start = None, steps: Steps = None, learn: Learn = None,
    universe: Universe = None, device: Device = None, memory: Memory = None, dtype: Dtype = None,
    max_shard_size: Shard = None,
    settings: Settings = None, dry_run: DryRun = False, resume: Resume = False, overwrite: Overwrite = False,
    json: Json = False, quiet: Quiet = False, verbose: Verbose = False, log_file: LogFile = None,
    log_to: LogTo = None,
) -> None:  # fmt: skip
    """Align all models with A, then write their weighted average as one stock checkpoint.

    With a task that has labels, the average is measured beside all models, their plain average and their ensemble.
    With --heal it is trained on that task, and compared with A, B and the plain average after the same training.
    """
    recipe = from_flags(
        "merge", models, limited(settings, memory), share=number(share), shares=shares and [shares], method=method,
        weight__preset=preset, weight__spaces=spaces, task__data=task_of(task), task__weights=weights_of(task_weight),
        task__samples=samples, heal__steps=heal, heal__lr=heal_rate, heal__compare=heal_compare,
        task__length=length, learned__start=start, learned__steps=steps, learned__learn=learn,
        universe__folder=universe, device=device, write__out=out, write__dtype=dtype,
        write__max_shard_size=max_shard_size,
    )  # fmt: skip
    watching = Watching(quiet, verbose, log_file, log_to)
    carry_out(recipe, watching, json=json, dry_run=dry_run, resume=resume, overwrite=overwrite)


def barrier(
    models: Annotated[list[str], typer.Argument(metavar="A B [C ...]", help="Checkpoint folders or Hub ids.")],
    task: Annotated[list[str], typer.Option(help=f"What to measure on: {FORMS} {SEVERAL}")],
    task_weight: Weights = None,
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
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_file: LogFile = None,
) -> None:
    """Measure loss and metric between models as they are; align them first to see them aligned.

    The barrier is the largest rise of the loss above the straight line between the losses of A and B, or above the
    average of the losses of more models: over a triangle of three, at the middles of all pairs and the centre of more.
    """
    recipe = from_flags(
        "barrier", models, settings, task__data=task_of(task), task__weights=weights_of(task_weight),
        task__samples=samples, task__length=length, task__batch_size=batch_size, path=path, points=points,
        device=device, write__out=out,
    )  # fmt: skip
    carry_out(recipe, Watching(quiet, verbose, log_file), json=json, dry_run=dry_run, overwrite=overwrite)
