"""`onebasin barrier A B --task TASK`."""

from __future__ import annotations

import json as _json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from onebasin.checkpoint import Checkpoint
    from onebasin.landscape import Curve

HELP = "images:FILE.npz, images:FOLDER, text:FILE, labelled:FILE.csv|jsonl, hub:DATASET:SPLIT, builtin:shapes|python."


def barrier(
    a: Annotated[str, typer.Argument(metavar="A", help="Checkpoint folder or Hub id.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The other end of the path.")],
    task: Annotated[str, typer.Option(help=f"What to measure on: {HELP}")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="New folder for barrier.json and barrier.svg.")
    ] = None,
    path: Annotated[str, typer.Option(help="factor (stock models) or circuit (QK and OV products).")] = "factor",
    points: Annotated[int, typer.Option(help="Points on the path, both ends included.")] = 11,
    samples: Annotated[int | None, typer.Option(help="How many images, texts or windows.")] = None,
    length: Annotated[int | None, typer.Option(help="Tokens per text or window.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Samples run at a time.")] = 64,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
) -> None:
    """Measure loss and metric on the path between two models as they are; align them first to see them aligned.

    The barrier is the largest rise of the loss above the straight line between the losses of A and B.
    """
    from onebasin.checkpoint import Checkpoint, check_output
    from onebasin.landscape import measure, path_between, pick_device
    from onebasin.tasks import load_task

    if out is not None:
        check_output(out, 0)
    where = pick_device(device)
    first, second = Checkpoint.open(a), Checkpoint.open(b)
    _refuse_strangers(first, second)
    route = path_between(path, first, second)
    data = load_task(task, first, samples=samples, length=length)
    with _progress(points, quiet) as tick:
        for end in (first, second):
            end.check_values()
        curve = measure(route, data, points, batch_size=batch_size, device=where, tick=tick)
    report = {"a": _name(a), "b": _name(b), **curve.as_dict()}
    if out is not None:
        _write(out, report, curve)
    typer.echo(_json.dumps(report, indent=2)) if json else _print(curve)


def _refuse_strangers(a: Checkpoint, b: Checkpoint) -> None:
    from onebasin.compatibility import obstacles
    from onebasin.errors import Incompatible

    for obstacle in obstacles(a, b):
        if obstacle.blocks:
            what = f"There is no path between these two: they differ in {obstacle.what}"
            raise Incompatible(what, expected=obstacle.a, found=obstacle.b, next_step=obstacle.next_step)


def _name(source: str) -> str:
    """A folder without the folders around it, or a Hub id as it is."""
    folder = Path(source).expanduser()
    return folder.resolve().name if folder.is_dir() else source


@contextmanager
def _progress(points: int, quiet: bool) -> Iterator[Callable[[float], None]]:
    """A bar on stderr; silent when stderr is not a terminal."""
    from rich.progress import Progress

    from onebasin.cli.output import messages

    with Progress(console=messages, transient=True, disable=quiet or not messages.is_terminal) as bar:
        step = bar.add_task("measuring", total=points)
        yield lambda weight: bar.update(step, advance=1, description=f"λ = {weight:.2g}")


def _write(out: Path, report: dict[str, Any], curve: Curve) -> None:
    from onebasin import __version__
    from onebasin.checkpoint import whole_folder
    from onebasin.report import plot

    with whole_folder(out) as folder:
        text = _json.dumps({"onebasin": __version__, **report}, indent=2)
        (folder / "barrier.json").write_text(text + "\n", encoding="utf-8")
        plot({f"{report['a']} to {report['b']}, {curve.path} path": curve}, folder / "barrier.svg")


def _print(curve: Curve) -> None:
    from rich.table import Table

    from onebasin.cli.output import console

    metrics = list(curve.ends[0].metrics)
    table = Table(box=None, pad_edge=False)
    for column in ("λ (share of B)", "loss", "± s.e.", *(m.replace("_", " ") for m in metrics)):
        table.add_column(column, justify="right")
    for weight, e in zip(curve.weights, curve.evaluations, strict=True):
        values = (f"{e.metrics[m]:.4f}" for m in metrics)
        table.add_row(f"{weight:.3g}", f"{e.loss:.4f}", f"{e.standard_error:.4f}", *values)
    console.print(table)
    a, b = curve.ends
    split = f", split {curve.task['split']}" if "split" in curve.task else ""
    console.print(
        f"barrier {curve.barrier:.4f} ± {curve.barrier_error:.4f} at λ = {curve.barrier_at:.3g} "
        f"(end points {a.loss:.4f} and {b.loss:.4f}; {curve.path} path, {len(curve.weights)} points)"
    )
    console.print(f"{curve.task['name']}{split}, {a.samples:,} samples")
