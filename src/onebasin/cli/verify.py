"""`onebasin verify A`."""

from __future__ import annotations

import json as _json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from onebasin.verification.verify import Verification


def verify(
    a: Annotated[str, typer.Argument(metavar="A", help="Checkpoint folder or Hub id.")],
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a Hub id.")] = None,
    seed: Annotated[int, typer.Option(help="Which random symmetries and inputs to draw.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
) -> None:
    """Draw random symmetries of a model and measure how far its outputs move.

    A random element of every space at once, in float64, float32 and the stored dtype; then each space alone in float64.
    Exit code 1 if the float64 outputs move by more than 1e-9.
    """
    from onebasin.checkpoint import Checkpoint
    from onebasin.cli.output import progress
    from onebasin.verification.verify import verify as measure

    checkpoint = Checkpoint.open(a, revision)
    with progress(quiet) as tick:
        checkpoint.check_values(lambda done, total: tick("checking that every number is finite", done, total))
        result = measure(checkpoint, seed=seed, tick=tick)
    if json:
        typer.echo(_json.dumps({**asdict(result), "holds": result.holds}, indent=2))
    else:
        _print(result)
    if not result.holds:
        raise typer.Exit(1)


def _print(result: Verification) -> None:
    from rich.table import Table

    from onebasin.cli.output import console
    from onebasin.verification.verify import PROMISE

    table = Table(box=None, pad_edge=False)
    for column in ("all spaces at once", "output drift", "rounding alone"):
        table.add_column(column, justify="left" if column.startswith("all") else "right")
    for dtype, drift in result.drift.items():
        table.add_row(dtype, f"{drift:.1e}", f"{result.rounding[dtype]:.1e}")
    console.print(table)
    table = Table(box=None, pad_edge=False)
    for column in ("one space, float64", "output drift", "displacement"):
        table.add_column(column, justify="left" if column.startswith("one") else "right")
    for space, drift in result.per_space.items():
        table.add_row(space, f"{drift:.1e}", f"{result.displacement[space]:.2f}")
    console.print(table)
    verdict = "holds" if result.holds else "IS BROKEN"
    console.print(
        f"promise {verdict}: float64 drift {result.drift['float64']:.1e}, outputs up to {result.scale:.3g}, "
        f"at most {PROMISE:g} allowed per unit"
    )
