"""`onebasin align A B -o OUT` and `onebasin merge A B -o OUT`."""

from __future__ import annotations

import json as _json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onebasin.cli.barrier import HELP

if TYPE_CHECKING:
    from onebasin.aligning import Aligned
    from onebasin.checkpoint import Checkpoint

A = Annotated[str, typer.Argument(metavar="A", help="The reference: checkpoint folder or Hub id.")]
B = Annotated[str, typer.Argument(metavar="B", help="The model that is moved.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="New folder.")]
Method = Annotated[str, typer.Option(help="weight (no data) or activation (unlabelled inputs of --task).")]
Task = Annotated[str | None, typer.Option(help=f"Inputs for the method activation: {HELP}")]
Samples = Annotated[int, typer.Option(min=1, help="How many inputs of the task to use.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Dtype = Annotated[
    str | None, typer.Option(help="float32, bfloat16 or float16; as stored in the inputs when not given.")
]
Shard = Annotated[str, typer.Option(help="Largest weight file, like 5GB.")]
Json = Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")]


def align(
    a: A, b: B, out: Out, method: Method = "weight", task: Task = None, samples: Samples = 500, device: Device = "auto",
    dtype: Dtype = None, max_shard_size: Shard = "5GB", json: Json = False, quiet: Quiet = False,
) -> None:  # fmt: skip
    """Write B in the basis and the gauge of A: the same function, and it averages with A's own files in any tool.

    Where B cannot be written in A's gauge (a tied head, a gain near zero), OUT/a and OUT/b hold both in canonical form.
    """
    aligned, report = _find(a, b, out, method, task, samples, device, dtype, quiet)
    text = f"{b} in the basis of {a}, by onebasin (method: {method}). The function is that of the original."
    parts = {"": aligned.b} if aligned.reason is None else {"a": aligned.a, "b": aligned.b}
    _write(out, parts, aligned, report, ("Aligned model", a, b, text), dtype, max_shard_size)
    _print(report, out, json)


def merge(
    a: A, b: B, out: Out, weight: Annotated[float, typer.Option(min=0, max=1, help="The share of B.")] = 0.5,
    method: Method = "weight", task: Task = None, samples: Samples = 500, device: Device = "auto",
    dtype: Dtype = None, max_shard_size: Shard = "5GB", json: Json = False, quiet: Quiet = False,
) -> None:  # fmt: skip
    """Align B with A, then write the weighted average of the two as one stock checkpoint."""
    aligned, report = _find(a, b, out, method, task, samples, device, dtype, quiet)
    text = f"{1 - weight:g} of {a} and {weight:g} of {b}, aligned and averaged by onebasin (method: {method})."
    merged = {"": aligned.midpoint(weight)}
    _write(out, merged, aligned, {**report, "weight_of_b": weight}, ("Merged model", a, b, text), dtype, max_shard_size)
    _print(report, out, json)


def _find(
    a: str, b: str, out: Path, method: str, task: str | None, samples: int, device: str, dtype: str | None, quiet: bool
) -> tuple[Aligned, dict[str, Any]]:
    from onebasin.aligning import align as find
    from onebasin.aligning import check_pair
    from onebasin.checkpoint import Checkpoint, check_output
    from onebasin.cli.output import spinner
    from onebasin.landscape import pick_device
    from onebasin.report.certificate import certificate
    from onebasin.tasks import load_task

    where = pick_device(device)
    first, second = Checkpoint.open(a), Checkpoint.open(b)
    check_output(out, 2 * first.store.nbytes)
    _code(dtype)
    check_pair(first, second)
    data = load_task(task, first, samples=samples) if task else None
    with spinner(quiet) as tick:
        for end in (first, second):
            end.check_values()
        batches = None if data is None else [inputs for inputs, _ in data.batches(64)]
        aligned = find(first, second, method, batches=batches, device=where, tick=tick)
        tick("certificate")
        report = {"method": method, "inputs": data.about if data else None, **certificate(second, aligned)}
    return aligned, report


def _code(dtype: str | None) -> str | None:
    """The safetensors code of a dtype's name."""
    from onebasin.checkpoint import DTYPES
    from onebasin.errors import BadOutput

    codes = {entry.name: code for code, entry in DTYPES.items() if entry.is_float}
    if dtype is not None and dtype not in codes:
        raise BadOutput(f"{dtype} is not a dtype to write in", expected=", ".join(codes), found=dtype,
                        next_step="leave --dtype out to write as the inputs are stored")  # fmt: skip
    return codes[dtype] if dtype else None


def _write(
    out: Path, parts: dict[str, Checkpoint], aligned: Aligned, report: dict[str, Any],
    card: tuple[str, str, str, str], dtype: str | None, max_shard_size: str,
) -> None:  # fmt: skip
    from onebasin.checkpoint import whole_folder
    from onebasin.report.card import model_card, name_of

    title, a, b, text = card
    text = text.replace(a, name_of(a)).replace(b, name_of(b))
    with whole_folder(out) as partial:
        for folder, checkpoint in parts.items():
            checkpoint.save(partial / folder, dtype=_code(dtype), max_shard_size=max_shard_size)
        aligned.alignment.save(partial)
        (partial / "certificate.json").write_text(_json.dumps(report, indent=2) + "\n")
        (partial / "README.md").write_text(model_card(title, a, b, text))


def _print(report: dict[str, Any], out: Path, json: bool) -> None:
    from onebasin.cli.output import console

    if json:
        typer.echo(_json.dumps(report, indent=2))
        return
    drift = ", ".join(f"{value:.1e} in {kind}" for kind, value in report["output_drift"].items())
    console.print(f"distance of the weights {report['distance_before']:.4g} -> {report['distance_after']:.4g}")
    console.print(f"aligned B against B, output drift: {drift}")
    console.print(f"written to {out}, in the gauge: {report['gauge']}")
