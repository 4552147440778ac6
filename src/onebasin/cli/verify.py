"""`onebasin verify A`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from onebasin.cli.output import console, print_json, print_table
from onebasin.cli.watching import LogFile, Quiet, Verbose, Watching, watch
from onebasin.ensemble.words import difference

if TYPE_CHECKING:
    from onebasin.verification.verify import Verification


def verify(
    a: Annotated[str, typer.Argument(metavar="A", help="Checkpoint folder or Hub id.")],
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a Hub id.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Which random symmetries and inputs to draw.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_file: LogFile = None,
) -> None:
    """Draw random symmetries of a model and measure how far its outputs move.

    A random element of every space at once, in float64, float32 and the stored dtype; then each kind of space alone in
    float64, and each of its layers where a kind fails.
    Exit code 1 if the float64 outputs move by more than 1e-9.
    """
    from onebasin.checkpoint import Checkpoint
    from onebasin.verification.verify import verify as measure

    checkpoint = Checkpoint.open(a, revision)
    with watch(Watching(quiet, verbose, log_file)) as (watched, _):
        checkpoint.check_values(lambda *done: watched.tick("checking that every number is finite", *done))
        result = measure(checkpoint, seed=seed, tick=watched.tick)
    if json:
        print_json({**asdict(result), "holds": result.holds})
    else:
        _print(result)
    if not result.holds:
        raise typer.Exit(1)


def _print(result: Verification) -> None:
    from onebasin.verification.verify import PROMISE

    together, alone = "all spaces at once", "one kind of space, float64"
    floors = [(dtype, difference(drift), difference(result.rounding[dtype])) for dtype, drift in result.drift.items()]
    moved = [
        (space, difference(drift), f"{result.displacement[space]:.2f}") for space, drift in result.per_space.items()
    ]
    print_table((together, "output drift", "rounding alone"), floors, left=(together,))
    print_table((alone, "output drift", "displacement"), moved, left=(alone,))
    verdict = "holds" if result.holds else "IS BROKEN"
    console.print(
        f"promise {verdict}: float64 drift {difference(result.drift['float64'])}, outputs up to {result.scale:.3g}, "
        f"at most {PROMISE:g} allowed per unit"
    )
