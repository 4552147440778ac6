"""`onebasin demo`: two small Transformers trained here, aligned by every method, one report; no download."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from onebasin.cli.output import console, print_json, print_table
from onebasin.cli.recipe import Json, Overwrite
from onebasin.cli.watching import LogFile, Quiet, Verbose, Watching, watch


class Kind(StrEnum):
    """What the models of the demo read."""

    image = "image"
    text = "text"


WORDS = {Kind.image: "two Vision Transformers that name shapes", Kind.text: "two GPT-2s that write Python"}


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="New folder.")] = Path("demo"),
    task: Annotated[Kind, typer.Option(help="Vision Transformers on drawn shapes, or GPT-2s on Python.")] = Kind.image,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter training: half a minute, rougher figures.")] = False,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_file: LogFile = None,
) -> None:
    """Train two small Transformers from different seeds, align them by every method, and compare their averages.

    OUT holds the two models, the second one aligned by each method, their learned average, and report.html.
    """
    from onebasin.checkpoint import check_output

    check_output(out, 0, overwrite=overwrite)
    if not json:
        typer.echo(f"{WORDS[task]}, trained here from seeds 0 and 1, then aligned by every method")
    with watch(Watching(quiet, verbose, log_file)) as (watched, _):
        watched.tick("loading torch and transformers")
        from onebasin.demo import VARIANTS, demonstrate

        report = demonstrate(VARIANTS[task.value, quick], out, watched.tick, overwrite=overwrite)
    if json:
        print_json(report)
    else:
        _print(report, out)


def _print(report: dict[str, Any], out: Path) -> None:
    from onebasin.cli.results import print_scores
    from onebasin.report.html.words import format_metric

    metric = report["metric"].replace("_", " ")
    columns = ("method", "loss barrier", f"average's {metric}", f"end points' {metric}", "seconds")
    rows = []
    for row in report["rows"]:
        values = (format_metric(row[key], report["metric"]) for key in ("midpoint", "ends"))
        rows.append((row["method"], f"{row['barrier']:.3f}", *values, f"{row['seconds']:.1f}"))
    print_table(columns, rows, left=("method",))
    test = report["data"]["test"]
    console.print(f"measured on {test['samples']:,} samples of {test['data']}, which no model was trained on")
    print_scores(report["scores"])
    console.print(f"merged, by learned alignment: {report['verdict']}")
    console.print(f"{report['conclusion']}\nopen {out / 'report.html'}")
