"""Bars: one for each method, a histogram, and the matrix of a permutation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onebasin.report.html.axes import HEIGHT, WIDTH, Axis, across, frame, upwards
from onebasin.report.html.markup import Markup, join, picture, tag

ROW, NAMES, VALUES = 34.0, 108.0, 72.0  # the height of a bar's row, the room for its name and for its value
EDGE = 28  # the room beside a matrix


def bar_chart(
    values: Mapping[str, float], text: Mapping[str, str], label: str, line: tuple[float, str] | None = None
) -> Markup:
    """One bar for each value, from zero; `line` is a value to compare them with, and its name."""
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
        tag("text", text, x=max(end, NAMES) + 6, y=y + 20, class_="value"),
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


def permutation_matrix(index: Sequence[int], label: str) -> Markup:
    """Row i is a place in A; its filled column is the unit of B that went there."""
    cell = max(4.0, min(16.0, 192 / len(index)))
    size = cell * len(index)
    edges = [EDGE + cell * i for i in range(len(index) + 1)]
    lines = "".join(f"M{EDGE} {at:g}h{size:g}M{at:g} {EDGE}v{size:g}" for at in edges)
    cells = [
        tag("rect", x=EDGE + cell * j, y=EDGE + cell * i, width=cell, height=cell, class_="bar")
        for i, j in enumerate(index)
    ]
    names = tag("text", "B →", x=EDGE, y=20), tag("text", "A ↓", x=0, y=EDGE + 12)
    svg = picture(
        max(EDGE + size + 1, 110), EDGE + size + 1, label, *names, tag("path", d=lines, class_="rule"), *cells
    )
    return tag("figure", svg, tag("figcaption", label), style=f"width:{max(EDGE + size + 1, 110):g}px")
