"""Sections of what was measured between models: methods compared, curves, the triangle of three models."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from onebasin.landscape.tables import note_of, table_of
from onebasin.report.html.bars import bar_chart
from onebasin.report.html.charts import Rise, line_chart
from onebasin.report.html.facts import Data
from onebasin.report.html.markup import Markup, chart, join, legend, table, tag
from onebasin.report.html.words import PARTS, format_metric, metric_of, name_barrier, value_of
from onebasin.report.pictures import INK, PAPER, squashed, ternary

SHARES = {0.0: "A", 0.25: "0.25", 0.5: "0.5", 0.75: "0.75", 1.0: "B"}


def methods(demo: Data) -> Markup:
    """Bars of barrier and midpoint, and the table behind them."""
    metric, rows, name = demo["metric"], demo["rows"], demo["metric"].replace("_", " ")
    barriers, midpoints = ({row["method"]: row[key] for row in rows} for key in ("barrier", "midpoint"))
    ends = rows[0]["ends"], f"end points: {format_metric(rows[0]['ends'], metric)}"
    heights = bar_chart(barriers, {n: f"{v:.3f}" for n, v in barriers.items()}, "loss barrier by method")
    middles = bar_chart(
        midpoints, {n: format_metric(v, metric) for n, v in midpoints.items()}, f"{name} by method", ends
    )
    cells: list[list[object]] = [
        [row["method"], f"{row['barrier']:.3f}", *(format_metric(row[key], metric) for key in ("midpoint", "ends")),
         f"{row['seconds']:.1f}"]
        for row in rows
    ]  # fmt: skip
    better = "higher" if metric in PARTS else "lower"
    bars = (
        chart("Loss barrier (lower is better)", heights),
        chart(f"The average's {name} ({better} is better)", middles),
    )
    return join(
        tag("div", *bars, class_="charts"),
        table(["method", "loss barrier", f"average's {name}", f"end points' {name}", "seconds"], cells),
    )


def curves(found: Mapping[str, Data]) -> Markup:
    """Loss and metric over λ for every curve, low curves once more from close by, and the points behind them."""
    first = next(iter(found.values()))
    metric, name, about = metric_of(first), metric_of(first).replace("_", " "), "λ, share of B"
    scale, unit = (100, " (%)") if metric in PARTS else (1, "")
    losses = {name: on_path(curve, [point["loss"] for point in curve["points"]]) for name, curve in found.items()}
    errors = {name: [point["standard_error"] for point in curve["points"]] for name, curve in found.items()}
    metrics = {
        name: on_path(curve, [scale * value_of(point, metric) for point in curve["points"]])
        for name, curve in found.items()
    }
    highest = rise(max(found.values(), key=lambda curve: curve["barrier"]["loss"]))
    low = squashed({name: [loss for _, loss in points] for name, points in losses.items()})
    draw_loss = partial(line_chart, losses, about, "loss (nats)", chords=True, marks=SHARES, errors=errors)
    loss = draw_loss(rise=highest)
    close = chart("Loss, the low curves close up", draw_loss(shown=low)) if low else None
    other = line_chart(metrics, about, f"{name}{unit}", chords=True, marks=SHARES) if metric != "loss" else None
    task, samples = first["task"], first["ends"]["a"]["samples"]
    split = f", split {task['split']}" if "split" in task else ""
    chosen = f" The lowest mean loss is at λ = {first['best']:.2g}: it was chosen." if "best" in first else ""
    note = f"{task['name']}{split}, {samples:,} samples, {len(first['shares'])} points, {first['path']} path.{chosen}"
    return join(
        tag("div", chart("Loss", loss), close, other and chart(name.capitalize(), other), class_="charts"),
        legend([f"{name}: {name_barrier(curve['barrier'])}" for name, curve in found.items()]),
        tag(
            "p",
            note,
            " Circles are the models themselves; dashed lines join them; bands are one standard error.",
            class_="note",
        ),
        tag("details", tag("summary", "All points"), *(points(name, curve) for name, curve in found.items())),
    )


def scores(found: Data) -> Markup:
    """All models beside each other."""
    head, *rows = table_of(found)
    return join(table(head, [list(row) for row in rows]), tag("p", f"Measured on {note_of(found)}.", class_="note"))


def on_path(curve: Data, values: list[float]) -> list[tuple[float, float]]:
    return list(zip(curve["shares"], values, strict=True))


def rise(curve: Data) -> Rise | None:
    """The barrier as an annotation, from the chord to the curve."""
    barrier, (a, b) = curve["barrier"], (end["loss"] for end in curve["ends"].values())
    if barrier["loss"] <= 0:
        return None
    chord = (1 - barrier["share"]) * a + barrier["share"] * b
    return Rise(barrier["share"], chord, chord + barrier["loss"], f"barrier {barrier['loss']:.3g}")


def points(name: str, curve: Data) -> Markup:
    measured = list(curve["points"][0]["metrics"])
    rows: list[list[object]] = []
    for share, p in zip(curve["shares"], curve["points"], strict=True):
        numbers = p["loss"], p["standard_error"], *(p["metrics"][m] for m in measured)
        rows.append([f"{share:.3g}", *(f"{value:.4f}" for value in numbers)])
    return join(tag("h3", name), table(["λ", "loss", "± s.e.", *(m.replace("_", " ") for m in measured)], rows))


def simplex(surface: Data) -> Markup:
    """The triangle of three models, and for any number the corners, the middles of two and the centre."""
    names, metric = surface["models"], metric_of(surface)
    places = [*zip(names, surface["vertices"], strict=True)]
    places += [(" and ".join(names[i] for i in point["between"]), point) for point in surface["midpoints"]]
    places.append(("all alike", surface["centre"]))
    cells: list[list[object]] = [
        [name, f"{point['loss']:.4f}", format_metric(value_of(point, metric), metric)] for name, point in places
    ]
    return join(
        triangle(surface) if len(names) == 3 else None, table(["average of", "loss", metric.replace("_", " ")], cells)
    )


def triangle(surface: Data) -> Markup:
    """Drawn in the colour of the text around it, whatever that is."""
    svg = ternary(surface).replace(INK, "currentColor").replace(PAPER, "none")
    return tag("figure", Markup(svg[svg.index("<svg") :]))
