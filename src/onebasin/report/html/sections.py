"""The sections of a page, each made from the facts that it needs; a section without facts is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onebasin.report.html.bars import bar_chart, histogram, permutation_matrix
from onebasin.report.html.facts import Data, Facts
from onebasin.report.html.lines import Rise, line_chart
from onebasin.report.html.markup import Markup, join, table, tag
from onebasin.report.html.words import kept, metric_of, number, summary

SHARES = {0.0: "A", 0.25: "0.25", 0.5: "0.5", 0.75: "0.75", 1.0: "B"}
DEGREES = {0.0: "0°", 45.0: "45°", 90.0: "90°", 135.0: "135°", 180.0: "180°"}
Section = tuple[str, str, Markup]  # id, heading, content


def sections(facts: Facts) -> Iterator[Section]:
    """In the order of the page."""
    yield "summary", "In short", join(*(tag("p", sentence) for sentence in summary(facts)))
    if facts.rows:
        yield "methods", "Methods", methods(facts)
    if facts.curves:
        yield "curves", "Between the models", curves(facts.curves)
    if facts.surface is not None:
        yield "simplex", "Between three models", simplex(facts.surface)
    if facts.certificate is not None:
        yield from of_alignment(facts.certificate)
    if facts.warnings:
        yield "warnings", "Warnings", tag("ul", *(tag("li", warning) for warning in facts.warnings))
    yield "again", "Make it again", again(facts)


def methods(facts: Facts) -> Markup:
    """Bars of barrier and midpoint, and the table behind them."""
    assert facts.demo is not None
    metric, rows, name = facts.demo["metric"], facts.rows, facts.demo["metric"].replace("_", " ")
    barriers, midpoints = ({row["method"]: row[key] for row in rows} for key in ("barrier", "midpoint"))
    ends = rows[0]["ends"], f"end points: {number(rows[0]['ends'], metric)}"
    heights = bar_chart(barriers, {n: f"{v:.3f}" for n, v in barriers.items()}, "loss barrier by method")
    middles = bar_chart(midpoints, {n: number(v, metric) for n, v in midpoints.items()}, f"{name} by method", ends)
    cells: list[list[object]] = [
        [row["method"], f"{row['barrier']:.3f}", *(number(row[key], metric) for key in ("midpoint", "ends")),
         f"{row['seconds']:.1f}"]
        for row in rows
    ]  # fmt: skip
    return join(
        tag("div", chart("Loss barrier", heights), chart(f"The average's {name}", middles), class_="charts"),
        table(["method", "loss barrier", f"average's {name}", f"end points' {name}", "seconds"], cells),
    )


def curves(found: Mapping[str, Data]) -> Markup:
    """Loss and metric over λ for every curve, and the points behind them."""
    first = next(iter(found.values()))
    metric, name, about = metric_of(first), metric_of(first).replace("_", " "), "λ, share of B"
    scale, unit = (100, " (%)") if metric == "accuracy" else (1, "")
    losses = {name: on_path(curve, [point["loss"] for point in curve["points"]]) for name, curve in found.items()}
    metrics = {
        name: on_path(curve, [scale * point["metrics"][metric] for point in curve["points"]])
        for name, curve in found.items()
    }
    highest = rise(max(found.values(), key=lambda curve: curve["barrier"]["loss"]))
    loss = line_chart(losses, about, "loss (nats)", chords=True, marks=SHARES, rise=highest)
    other = line_chart(metrics, about, f"{name}{unit}", chords=True, marks=SHARES)
    task, samples = first["task"], first["ends"]["a"]["samples"]
    split = f", split {task['split']}" if "split" in task else ""
    note = f"{task['name']}{split}, {samples:,} samples, {len(first['weights'])} points, {first['path']} path."
    return join(
        tag("div", chart("Loss", loss), chart(name.capitalize(), other), class_="charts"),
        legend([f"{name}: barrier {curve['barrier']['loss']:.3f}" for name, curve in found.items()]),
        tag("p", note, " Circles are the models themselves; dashed lines join them.", class_="note"),
        tag("details", tag("summary", "All points"), *(points(name, curve) for name, curve in found.items())),
    )


def on_path(curve: Data, values: list[float]) -> list[tuple[float, float]]:
    return list(zip(curve["weights"], values, strict=True))


def rise(curve: Data) -> Rise | None:
    """The barrier as an annotation, from the chord to the curve."""
    barrier, (a, b) = curve["barrier"], (end["loss"] for end in curve["ends"].values())
    if barrier["loss"] <= 0:
        return None
    chord = (1 - barrier["weight"]) * a + barrier["weight"] * b
    return Rise(barrier["weight"], chord, chord + barrier["loss"], f"barrier {barrier['loss']:.3g}")


def points(name: str, curve: Data) -> Markup:
    measured = list(curve["points"][0]["metrics"])
    rows: list[list[object]] = []
    for weight, p in zip(curve["weights"], curve["points"], strict=True):
        numbers = p["loss"], p["standard_error"], *(p["metrics"][m] for m in measured)
        rows.append([f"{weight:.3g}", *(f"{value:.4f}" for value in numbers)])
    return join(tag("h3", name), table(["λ", "loss", "± s.e.", *(m.replace("_", " ") for m in measured)], rows))


def simplex(surface: Data) -> Markup:
    from onebasin.report.ternary import ternary  # type: ignore[import-not-found, unused-ignore]

    return tag("div", Markup(ternary(surface)), class_="charts")


def of_alignment(certificate: Data) -> Iterator[Section]:
    """What was learned, which heads went where, how far the stream was turned, and the certificate."""
    if "learning" in certificate:
        yield "learning", "Learning", learning(certificate["learning"])
    if certificate["heads"]:
        yield "heads", "Heads", heads(certificate["heads"])
    if certificate["angles"]:
        yield "rotations", "Rotation of the residual stream", rotations(certificate["angles"])
    yield "certificate", "Certificate", proof(certificate)


def learning(course: Data) -> Markup:
    history = course["history"]
    series = {"midpoint, samples held back": [(p["step"], p["midpoint"]) for p in history]}
    seen = [(p["step"], p["train_loss"]) for p in history if p["train_loss"] is not None]
    if seen:
        series["training"] = seen
    return join(
        tag("div", chart("Loss while learning", line_chart(series, "step", "loss")), class_="charts"),
        legend(list(series)),
        tag("p", f"The maps of step {course['best_step']:,} are kept, the best on samples held back.", class_="note"),
    )


def heads(found: Mapping[str, list[int]]) -> Markup:
    note = "A row is a head of A; the filled square in it is the head of B that took its place."
    figures = [permutation_matrix(places, space) for space, places in found.items()]
    return join(tag("div", *figures, class_="matrices"), tag("p", note, class_="note"))


def rotations(found: Mapping[str, list[int]]) -> Markup:
    charts = [
        chart(space, histogram(counts, 180.0, "angle by which a plane turns", "directions", DEGREES))
        for space, counts in found.items()
    ]
    note = "Every direction of the stream turns in some plane, by an angle from 0° (it stays) to 180° (it flips)."
    return join(tag("div", *charts, class_="charts"), tag("p", note, class_="note"))


def proof(certificate: Data) -> Markup:
    rows: list[list[object]] = [
        [kind, f"{drift:.1e}", f"{certificate['rounding_alone'][kind]:.1e}"]
        for kind, drift in certificate["output_drift"].items()
    ]
    more: list[list[object]] = [
        ["gauge", certificate["gauge"]],
        ["distance of the weights", f"{certificate['distance_before']:.4g} → {certificate['distance_after']:.4g}"],
        ["sweeps", f"{certificate['sweeps']}{'' if certificate['converged'] else ', not converged'}"],
        ["orthogonality error", f"{certificate['orthogonality_error']:.1e}"],
    ]
    return join(
        tag("p", f"Method {certificate['method']}. {kept(certificate)}"),
        table(["outputs, aligned B against B", "largest difference", "rounding alone"], rows),
        table(["what was done", ""], more),
    )


def again(facts: Facts) -> Markup:
    """The command and the recipe; both of the demo, which has no recipe of its own."""
    if facts.recipe is not None:
        return join(tag("pre", "onebasin run recipe.yaml -o AGAIN"), tag("pre", facts.recipe, class_="recipe"))
    task = facts.demo["task"] if facts.demo is not None else "image"
    return join(
        tag("pre", f"onebasin demo --task {task} -o AGAIN"),
        tag("p", "The folder of each method holds its own recipe.yaml, for onebasin run.", class_="note"),
    )


def chart(title: str, svg: Markup) -> Markup:
    return tag("figure", tag("figcaption", title), svg)


def legend(names: list[str]) -> Markup:
    return tag("ul", *(tag("li", name, class_=f"s{i}") for i, name in enumerate(names)), class_="legend")
