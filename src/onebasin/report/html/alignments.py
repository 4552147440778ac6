"""Sections of an alignment: what was learned, where heads went, how streams turned, and the certificate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onebasin.report.html.bars import histogram, permutation_matrix
from onebasin.report.html.facts import Data
from onebasin.report.html.lines import line_chart
from onebasin.report.html.markup import Markup, Section, chart, join, legend, table, tag
from onebasin.report.html.words import kept

DEGREES = {0.0: "0°", 45.0: "45°", 90.0: "90°", 135.0: "135°", 180.0: "180°"}


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
