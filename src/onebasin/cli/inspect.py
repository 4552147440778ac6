"""`onebasin inspect A [B]`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from onebasin.checkpoint import Checkpoint
from onebasin.cli.output import console, duration, print_json, print_table, progress, size
from onebasin.ensemble import inspection
from onebasin.errors import OnebasinError, one_line


def inspect(
    a: Annotated[str, typer.Argument(metavar="A", help="Checkpoint folder or Hub id.")],
    b: Annotated[str | None, typer.Argument(metavar="[B]", help="A second one: what blocks an alignment?")] = None,
    weights: Annotated[
        bool, typer.Option("--weights", help="Read the weights of A and B: one basin already, independent, or between?")
    ] = False,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a Hub id.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show the symmetries of a model: spaces, families and why, group dimension, ties, memory, time.

    Reads headers and configuration, and a few megabytes to see how fast this machine is.  With B, also says what stands
    between the two (exit code 1 if it blocks).  With --weights, reads all weights and says whether the two need an
    alignment: the cosine of their layers as stored, and of some layers after a quick match.  The last line says whether
    the models are ready, and what to type next.
    """
    names = [name for name in (a, b) if name is not None]
    if weights:
        found = _with_weights(names, revision, quiet=json)
    else:
        found = inspection.inspect(*(Checkpoint.open(name, revision) for name in names))
    if json:
        print_json(found.report)
    else:
        _print_model(found.report) if b is None else _print_pair(found.report)
        typer.echo(one_line(found.advice(*names)))
    if not found.ready:
        raise typer.Exit(1)


def _with_weights(names: list[str], revision: str | None, *, quiet: bool) -> inspection.Inspection:
    if len(names) < 2:
        step = f"onebasin inspect {names[0]} B --weights"
        raise OnebasinError("--weights compares two models", expected=2, found=1, next_step=step)
    from onebasin.report.weights import inspect_weights, open_any

    with progress(quiet) as tick:
        a, b = (open_any(name, revision) for name in names)
        return inspect_weights(a, b, tick)


def _print_model(report: dict[str, Any]) -> None:
    dtypes = ", ".join(report["dtypes"])
    console.print(report["architecture"], style="bold", end="  ")
    console.print(one_line(report["model"]))
    console.print(f"{report['parameters']:,} parameters, {size(report['bytes'])} on disk ({dtypes})")
    columns, rows = ("space", "size", "symmetries (canonical form)", "dimension", "because of"), []
    for name, count, space in inspection.kinds(report["spaces"]):
        fibres = f"{space['fibres']} × " if space["fibres"] else ""
        times = f"{count} × " if count > 1 else ""
        because = ", ".join(op["operation"] for op in space["because"]) or "linear maps only"
        dimension = f"{times}{space['dimension']:,}"
        rows.append((name, f"{fibres}{space['size']}", space["family"], dimension, because))
    print_table(columns, rows, left=columns[::2])
    console.print(f"group dimension {report['dimension']:,}")
    if report["tied"]:
        console.print(f"head tied to {report['tied']}: canonical form unties it (`tie_word_embeddings: false`)")
    for reason in dict.fromkeys(report["kept_gains"].values()):
        gains = [name for name, why in report["kept_gains"].items() if why == reason]
        console.print(f"{len(gains)} gain(s) stay, {gains[0]} first: {reason}")
    memory = report["memory"]
    verify, align, learn = (size(memory[work]) for work in ("verify", "align", "learn"))
    console.print(f"memory: verify {verify}, align two of these {align} by weights, {learn} with data or learning")
    taken = report["seconds"]
    stages = ", ".join(f"{name} {duration(x)}" for name, x in taken["align"].items())
    console.print(
        f"time on this CPU: align two of these {duration(sum(taken['align'].values()))} by weights ({stages}), "
        f"{duration(taken['step'])} for a step of learning on {inspection.STEP:,} tokens"
    )


def _print_pair(pair: dict[str, Any]) -> None:
    for side in ("a", "b"):
        if side in pair:
            _print_model(pair[side])
            console.print()
    for obstacle in pair["obstacles"]:
        kind = "blocks" if obstacle["blocks"] else "note"
        console.print(one_line(f"{kind}: {obstacle['what']}: A has {obstacle['a']}, B has {obstacle['b']}"))
        console.print(f"  next step: {obstacle['next_step']}")
    if "weights" in pair:
        _print_weights(pair["weights"])


BAR = 20  # characters of a cosine of one


def _print_weights(weights: dict[str, Any]) -> None:
    """A row for each layer, with a bar for its cosine as stored and after the quick match; then the verdict."""
    columns = ("layer of A", "layer of B", "cosine", "as stored", "", "after a quick match")
    rows = [(x["a"], x["b"], *_bar(x["stored"]), *_bar(x["matched"])) for x in weights["layers"]]
    if rows:
        print_table(columns, rows, left=(*columns[:2], columns[3], columns[5]))
    if weights["outside"]:
        values = ", ".join(f"{name} {value:.3f}" for name, value in weights["outside"].items())
        console.print(f"outside of layers, not counted: {values}")
    if weights["note"]:
        console.print(weights["note"])
    for name, heads in weights.get("heads", {}).items():
        if heads is not None:
            console.print(one_line(inspection.say_heads(name.upper(), heads)))
    console.print(inspection.say_weights(weights), style="bold")


def _bar(value: float | None) -> tuple[str, str]:
    """A cosine, as a number and as a bar; nothing where there is none."""
    return ("", "") if value is None else (f"{value:.3f}", "█" * round(BAR * max(value, 0.0)) or "·")
