"""`onebasin align A B -o OUT` and `onebasin merge A B -o OUT`."""

from __future__ import annotations

from typing import Annotated

import typer

from onebasin.cli.recipe import FORMS, Device, DryRun, Json, Out, Quiet, Resume, Settings, carry_out, from_flags

A = Annotated[str, typer.Argument(metavar="A", help="The reference: checkpoint folder or Hub id.")]
B = Annotated[str, typer.Argument(metavar="B", help="The model that is moved.")]
Method = Annotated[
    str | None,
    typer.Option(
        help="weight (no data), activation (inputs of --task), learned, dual or soft (a labelled --task), or auto: the "
        "best that can be had from what is given.",
        show_default="weight",
    ),
]
Start = Annotated[
    str | None,
    typer.Option(help="What learning begins with: weight, activation or identity.", show_default="activation"),
]
Steps = Annotated[int | None, typer.Option(help="Steps of learning (auto: 300).", show_default="1000")]
Learn = Annotated[
    list[str] | None,
    typer.Option(help="What learns: residual, qk, ov (these by default), heads, units, scale.  Repeatable."),
]
Preset = Annotated[str | None, typer.Option(help="A named set of options of weight matching.")]
Spaces = Annotated[
    list[str] | None, typer.Option(help="Match only these spaces, like attention; the others stay.  Repeatable.")
]
Task = Annotated[str | None, typer.Option(help=f"Inputs, with labels where these are learned from: {FORMS}")]
Samples = Annotated[int | None, typer.Option(help="How many inputs of the task to use, if not all.")]
Length = Annotated[int | None, typer.Option(help="Tokens per text or window.")]
Dtype = Annotated[
    str | None, typer.Option(help="float32, bfloat16 or float16; as stored in the inputs when not given.")
]
Shard = Annotated[str | None, typer.Option(help="Largest weight file, like 200MB.", show_default="5GB")]


def align(
    a: A, b: B, out: Out, method: Method = None, preset: Preset = None, spaces: Spaces = None, task: Task = None,
    samples: Samples = None, length: Length = None, start: Start = None, steps: Steps = None, learn: Learn = None,
    device: Device = None, dtype: Dtype = None, max_shard_size: Shard = None,
    mergekit: Annotated[bool, typer.Option("--mergekit", help="Also write mergekit.yaml for the average.")] = False,
    settings: Settings = None, dry_run: DryRun = False, resume: Resume = False, json: Json = False,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Write B in the basis and the gauge of A: the same function, and it averages with A's own files in any tool.

    Where B cannot be written in A's gauge (a tied head, a gain near zero), OUT/a and OUT/b hold both in canonical form.
    """
    recipe = from_flags(
        "align", a, b, settings, method=method, matching__preset=preset, matching__spaces=spaces, task__data=task,
        task__samples=samples, task__length=length, start=start, learn__steps=steps, learn__learn=learn,
        device=device, write__out=out, write__dtype=dtype, write__max_shard_size=max_shard_size,
        write__mergekit=mergekit or None,
    )  # fmt: skip
    carry_out(recipe, json=json, quiet=quiet, dry_run=dry_run, resume=resume)


def merge(
    a: A, b: B, out: Out,
    weight: Annotated[float | None, typer.Option(help="The share of B, from 0 to 1.", show_default="0.5")] = None,
    method: Method = None, preset: Preset = None, spaces: Spaces = None, task: Task = None, samples: Samples = None,
    length: Length = None, start: Start = None, steps: Steps = None, learn: Learn = None, device: Device = None,
    dtype: Dtype = None, max_shard_size: Shard = None,
    settings: Settings = None, dry_run: DryRun = False, resume: Resume = False, json: Json = False,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Align B with A, then write the weighted average of the two as one stock checkpoint."""
    recipe = from_flags(
        "merge", a, b, settings, weight=weight, method=method, matching__preset=preset, matching__spaces=spaces,
        task__data=task, task__samples=samples, task__length=length, start=start, learn__steps=steps,
        learn__learn=learn, device=device, write__out=out, write__dtype=dtype, write__max_shard_size=max_shard_size,
    )  # fmt: skip
    carry_out(recipe, json=json, quiet=quiet, dry_run=dry_run, resume=resume)
