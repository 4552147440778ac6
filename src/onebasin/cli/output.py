"""Consoles, progress, tables and number formats shared by the verbs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from onebasin.checkpoint import json_text
from onebasin.cli.pace import Pace

console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)  # [x] and :x: may be names
if not console.is_terminal:
    console.width = 132  # piped output is read by programs and pasted by people: no early wrapping
messages = Console(stderr=True, markup=False, emoji=False, highlight=False)


def size(nbytes: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 1000:
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1000
    return f"{nbytes:.3g} TB"


def duration(seconds: float) -> str:
    """A time for people, no more exact than it is known."""
    if seconds < 0.1:
        return "under 0.1 s"
    for unit, length in (("s", 60), ("min", 60), ("h", 24)):
        if seconds < length:
            return f"{seconds:.1g} {unit}" if seconds < 9.5 else f"{round(seconds)} {unit}"
        seconds /= length
    return f"{seconds:.2g} days"


def print_json(report: Any) -> None:
    """What `--json` prints."""
    typer.echo(json_text(report), nl=False)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[str] = ()) -> None:
    """Columns under their names: words in those of `left`, numbers in the others."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def warn(text: str) -> None:
    """A warning on stderr."""
    typer.echo(f"onebasin: warning: {text}", err=True)


@contextmanager
def progress(quiet: bool = False) -> Iterator[Callable[..., None]]:
    """One line on stderr, called with (step, done, total): the step, the time so far; a bar and the time left.

    Silent when stderr is not a terminal.
    """
    if quiet or not messages.is_terminal:
        yield lambda step, done=0, total=0: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar, left = BarColumn(bar_width=24), TextColumn("{task.fields[left]}")
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), bar, TimeElapsedColumn(), left
    with Progress(*columns, console=messages, transient=True) as live:
        line = live.add_task("starting", total=None, left="")
        pace = Pace()

        def tick(step: str, done: float = 0, total: float = 0) -> None:
            left = pace.left(step, done, total)
            live.update(line, description=step, completed=done, total=total or None, left=left)

        yield tick
