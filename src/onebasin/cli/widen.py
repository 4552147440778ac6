"""`onebasin widen A --set SIZE=NUMBER -o OUT`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from onebasin.checkpoint import Checkpoint, check_output, json_text
from onebasin.cli.output import print_json, progress
from onebasin.cli.recipe import Json, Out, Quiet
from onebasin.ensemble.words import describe_drift
from onebasin.errors import OnebasinError

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
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the same function as a larger model: residual width, FFN width, heads, head width, eps.

    What cannot be exact is refused with the reason.  OUT/certificate.json says how far the outputs moved.
    """
    from onebasin.widening.widen import widen as larger

    checkpoint = Checkpoint.open(a, revision)
    settings = dict(_setting(text) for text in sizes)
    check_output(out, 0)
    with progress(quiet) as tick:
        checkpoint.check_values(lambda done, total: tick("checking that every number is finite", done, total))
        tick("widening")
        wide = larger(checkpoint, settings, extra=extra).in_memory()
        report = _report(checkpoint, wide, settings)
        wide.save(
            out, extra_files={"certificate.json": json_text(report)},
            progress=lambda done, total: tick("writing", done, total),
        )  # fmt: skip
    if json:
        print_json(report)
        return
    typer.echo(f"widened: {report['growth'] or 'nothing'}\noutput drift: {describe_drift(report['output_drift'])}")


def _report(checkpoint: Checkpoint, wide: Checkpoint, settings: dict[str, Any]) -> dict[str, Any]:
    from onebasin.alignment import Alignment
    from onebasin.verification.verify import drifts
    from onebasin.widening.pair import growth

    drift, rounding, _ = drifts(checkpoint, wide, Alignment({}, {}))
    return {
        "settings": settings, "growth": growth(checkpoint.spec, wide.spec), "output_drift": drift,
        "rounding_alone": rounding,
    }  # fmt: skip


def _setting(text: str) -> tuple[str, int | float]:
    name, _, value = text.partition("=")
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    raise OnebasinError("--set needs a number", expected="KEY=NUMBER", found=text, next_step="like hidden_size=512")
