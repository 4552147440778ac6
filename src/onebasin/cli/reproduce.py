"""`onebasin reproduce NAME -o OUT`: a table or figure of a paper, published beside ours."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onebasin.cli.output import console, print_json, print_table
from onebasin.cli.recipe import Device, Json
from onebasin.cli.watching import LogFile, Quiet, Verbose, Watching, watch
from onebasin.errors import OnebasinError

if TYPE_CHECKING:
    from onebasin.reproduce.plan import Entry


def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Which table or figure; see --list.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder; parts of it that an earlier run finished are kept.")
    ] = None,
    budget: Annotated[
        str, typer.Option(help="tiny (made-up data, minutes on a CPU), small (minutes on a GPU) or paper.")
    ] = "tiny",
    seeds: Annotated[int, typer.Option(min=1, help="Pairs of models, or copies of one.")] = 3,
    data: Annotated[
        Path | None, typer.Option(help="Folder with cifar10_*.npz, tiny_shakespeare.txt, wikitext-2; tiny needs none.")
    ] = None,
    device: Device = None,
    at_once: Annotated[
        int | None,
        typer.Option(min=1, help="Rows measured side by side, each in a process.", show_default="8 on a GPU, else 1"),
    ] = None,
    limit_minutes: Annotated[
        float | None, typer.Option(min=0, help="End after so long; the same command goes on from there.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List all names, and how long each takes, and exit.")] = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_file: LogFile = None,
) -> None:
    """Train the models of a paper's table, align them, measure, and print published beside ours.

    OUT holds NAME.json and NAME.md, both whole at any time, NAME.svg at the end, and all models.  Entries
    share models that are the same: give them one folder.
    """
    from onebasin.reproduce.registry import ENTRIES, entry_of

    if listed:
        _print_list(ENTRIES.values(), seeds)
        return
    if name is None or out is None:
        raise OnebasinError(
            "reproduce needs a name and a folder", next_step="onebasin reproduce NAME -o OUT, or --list"
        )
    entry = entry_of(name, budget)
    with watch(Watching(quiet, verbose, log_file)) as (watched, _):
        watched.tick("loading torch and transformers")
        from onebasin.processes.devices import pick_device
        from onebasin.reproduce.running import reproduce as make

        where = pick_device(device or "auto")
        report = make(entry, budget, seeds, out, data, where, watched.tick, at_once, limit_minutes)
    if json:
        print_json(report)
    else:
        _print(report, out)


def _print_list(entries: Iterable[Entry], seeds: int) -> None:
    from onebasin.reproduce.foretelling import minutes

    rows = [(entry.name, entry.title, f"{minutes(entry.plan('small', seeds)):.0f}") for entry in entries]
    left = ("name", "what it is")
    print_table((*left, "minutes of small"), rows, left=left)
    console.print(f"minutes on one H200, foretold, with --seeds {seeds}; entries in one folder share their models")


def _print(report: dict[str, Any], out: Path) -> None:
    from onebasin.reproduce.tables import HEADER, cells

    console.print(report["title"])
    print_table(HEADER, [cells(line) for line in report["table"]], left=HEADER[:2])
    for row, why in report["failed"].items():
        console.print(f"not measured: {row}: {why}")
    if report["measured"] + len(report["failed"]) < report["of"]:
        console.print(f"{report['measured']} of {report['of']} rows are measured; the same command goes on")
    console.print(f"{report['differs']}\nwritten to {out}")
