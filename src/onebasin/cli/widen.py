"""`onebasin widen A --set SIZE=NUMBER -o OUT`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from onebasin.checkpoint import Checkpoint, check_output, json_text
from onebasin.cli.output import print_json
from onebasin.cli.recipe import Json, Out, Overwrite
from onebasin.cli.watching import LogFile, Quiet, Verbose, Watching, watch
from onebasin.ensemble.words import describe_drift
from onebasin.errors import BadOutput, OnebasinError
from onebasin.options import LARGEST

Sizes = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="A size in config.json, like hidden_size=512, or eps; repeatable."),
]


def widen(
    a: Annotated[str, typer.Argument(metavar="A", help="Checkpoint folder or Hub id.")],
    out: Out,
    sizes: Sizes,
    extra: Annotated[
        str, typer.Option(help="Additional units and heads: zero, or split (copies that share their outputs).")
    ] = "zero",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a Hub id.")] = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_file: LogFile = None,
) -> None:
    """Write the same function as a larger model: residual width, FFN width, heads, head width, eps.

    What cannot be exact is refused with the reason.  OUT/certificate.json says how far the outputs moved.
    """
    from onebasin.widening.widen import widen as larger

    checkpoint = Checkpoint.open(a, revision)
    settings = dict(_setting(text) for text in sizes)
    check_output(out, 0, overwrite=overwrite)
    if checkpoint.store.folder.resolve().is_relative_to(out.resolve()):
        raise BadOutput("The output would replace an input", found=out, next_step="give another output folder")
    with watch(Watching(quiet, verbose, log_file)) as (watched, _):
        checkpoint.check_values(lambda *done: watched.tick("checking that every number is finite", *done))
        watched.tick("widening")
        wide = larger(checkpoint, settings, extra=extra).in_memory()
        report = _report(checkpoint, wide, settings)
        wide.save(
            out, extra_files={"certificate.json": json_text(report)},
            progress=lambda *done: watched.tick("writing", *done), overwrite=overwrite,
        )  # fmt: skip
    if json:
        print_json(report)
        return
    typer.echo(f"widened: {report['growth'] or 'nothing'}\noutput drift: {describe_drift(report['output_drift'])}")


def _report(checkpoint: Checkpoint, wide: Checkpoint, settings: dict[str, Any]) -> dict[str, Any]:
    from onebasin.alignment import Alignment
    from onebasin.verification.verify import drifts
    from onebasin.widening.pair import growth

    drift, rounding, *_ = drifts(checkpoint, wide, Alignment({}, {}))
    return {
        "settings": settings, "growth": growth(checkpoint.spec, wide.spec), "output_drift": drift,
        "rounding_alone": rounding,
    }  # fmt: skip


def _setting(text: str) -> tuple[str, int | float]:
    name, _, value = text.partition("=")
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        if abs(number) <= LARGEST:
            return name, number
    raise OnebasinError("--set needs a number", expected="KEY=NUMBER", found=text, next_step="like hidden_size=512")
