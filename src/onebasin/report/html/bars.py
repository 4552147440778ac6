"""Bars as SVG: one for each method, some for each layer, counts of angles; and the matrix of a permutation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from onebasin.report.html.charts import HEIGHT, WIDTH, Axis, across, frame, upwards
from onebasin.report.html.markup import Markup, join, picture, tag

ROW, NAMES, VALUES = 34.0, 108.0, 72.0  # the height of a bar's row, the room for its name and for its value
EDGE = 28  # the room beside a matrix
MOST, FEWEST = 16, 6  # names under bars; places that there is room for, so that few bars are not wide


def bar_chart(
    values: Mapping[str, float], text: Mapping[str, str], label: str, line: tuple[float, str] | None = None
) -> Markup:
    """One bar for each value, from zero; `line` is a value to compare them with, and its name.

    The texts stand in a column of their own, where no line comes.
    """
    top = 26.0 if line else 6.0
    x = Axis(0.0, max([*values.values(), line[0] if line else 0.0]) or 1.0, NAMES, WIDTH - VALUES)
    height = top + ROW * len(values) + 4
    bars = [_bar(i, name, x(value), top + ROW * i, text[name]) for i, (name, value) in enumerate(values.items())]
    return picture(WIDTH, height, label, line and _compared(x(line[0]), line[1], top, height), *bars)


def _compared(at: float, name: str, top: float, height: float) -> Markup:
    words = tag("text", name, x=at, y=top - 10, text_anchor="end" if at > WIDTH / 2 else "start")
    return join(tag("line", x1=at, x2=at, y1=top - 4, y2=height - 2, class_="chord"), words)


def _bar(number: int, name: str, end: float, y: float, text: str) -> Markup:
    return tag(
        "g",
        tag("text", name, x=NAMES - 8, y=y + 20, text_anchor="end"),
        tag("rect", x=NAMES, y=y + 5, width=max(end - NAMES, 1.5), height=ROW - 12, rx=2, class_="bar"),
        tag("text", text, x=WIDTH - VALUES + 10, y=y + 20, class_="value"),
        class_=f"s{number}",
    )


def histogram(counts: Sequence[int], high: float, x_name: str, y_name: str, marks: Mapping[float, str]) -> Markup:
    """Counts in equal bins from 0 to `high`."""
    x, y, width = across(0.0, high), upwards(0.0, 1.08 * max(counts)), high / len(counts)
    bars = [
        tag("rect", tag("title", f"{count} from {i * width:.4g} to {(i + 1) * width:.4g}"), x=x(i * width) + 1,
            y=y(count), width=x(width) - x(0) - 2, height=y(0) - y(count), class_="bar")
        for i, count in enumerate(counts)
    ]  # fmt: skip
    return picture(WIDTH, HEIGHT, x_name, frame(x, y, x_name, y_name, marks), *bars)


def paired_bars(places: Sequence[str], series: Mapping[str, Sequence[float]], x_name: str, y_name: str) -> Markup:
    """At each place one bar for every series, beside each other, from zero; up to one, or down to minus one."""
    lowest = min(min(values) for values in series.values())
    beside = max(FEWEST - len(places), 0) / 2
    x, y = across(-beside, len(places) + beside), upwards(-0.2 * ceil(max(0.0, -5 * lowest - 0.1)), 1.0)
    width = 0.8 / len(series)
    every = -(-len(places) // MOST)
    marks = {i + 0.5: name for i, name in enumerate(places) if i % every == 0}
    bars = [
        tag("rect", tag("title", f"{places[i]}, {name}: {value:.3f}"), x=x(i + 0.1 + number * width),
            y=y(max(value, 0.0)), width=x(width) - x(0.0), height=max(abs(y(value) - y(0.0)), 1.0),
            class_=f"bar s{number}")
        for number, (name, values) in enumerate(series.items()) for i, value in enumerate(values)
    ]  # fmt: skip
    return picture(WIDTH, HEIGHT, f"{y_name} by {x_name}: {', '.join(series)}",
                   frame(x, y, x_name, y_name, marks), *bars)  # fmt: skip


def permutation_matrix(index: Sequence[int], label: str, scores: Sequence[Sequence[float]] | None = None) -> Markup:
    """Row i is a place in A; the marked column is the unit of B that went there.  Shades are scores beside the best."""
    cell = max(4.0, min(24.0, 192 / len(index)))
    size = cell * len(index)
    edges = [EDGE + cell * i for i in range(len(index) + 1)]
    lines = "".join(f"M{EDGE} {at:g}h{size:g}M{at:g} {EDGE}v{size:g}" for at in edges)
    most = max((score for row in scores or [] for score in row), default=0.0) or 1.0
    shades = [
        tag("rect", tag("title", f"head {i} of A, head {j} of B: {score:.2f}"), x=EDGE + cell * j, y=EDGE + cell * i,
            width=cell, height=cell, class_="bar", fill_opacity=max(0.0, score / most))
        for i, row in enumerate(scores or []) for j, score in enumerate(row)
    ]  # fmt: skip
    chosen = [
        tag("rect", x=EDGE + cell * j, y=EDGE + cell * i, width=cell, height=cell, class_="chosen" if scores else "bar")
        for i, j in enumerate(index)
    ]
    names = tag("text", "B →", x=EDGE, y=20), tag("text", "A ↓", x=0, y=EDGE + 12)
    mean = scores and f" {sum(scores[i][j] for i, j in enumerate(index)) / len(index):.2f}"
    width, grid = max(EDGE + size + 1, 140), tag("path", d=lines, class_="rule")
    svg = picture(width, EDGE + size + 1, label, *names, *shades, grid, *chosen)
    return tag("figure", svg, tag("figcaption", label, mean), style=f"width:{width:g}px")
