"""Charts as SVG: axes with round ticks, lines with their chords, bars, histograms, and the matrix of a permutation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onebasin.report.html.markup import Markup, join, picture, tag

WIDTH, HEIGHT = 440.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 54.0, 14.0, 14.0, 42.0
ROW, NAMES, VALUES = 34.0, 108.0, 72.0  # the height of a bar's row, the room for its name and for its value
EDGE = 28  # the room beside a matrix
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """Values from `low` to `high` on pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low or 1.0) * (self.end - self.start)

    def ticks(self, about: int = 5) -> list[float]:
        """About so many multiples of 1, 2 or 5 times a power of ten."""
        step = round_step((self.high - self.low) / about)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


def round_step(width: float) -> float:
    """The smallest of 1, 2, 5, 10 times a power of ten that is not below `width`."""
    power = 10.0 ** math.floor(math.log10(width)) if width > 0 else 1.0
    return power * next(m for m in (1, 2, 5, 10) if m * power >= width * (1 - 1e-9))


def across(low: float, high: float) -> Axis:
    """From left to right of the plot."""
    return Axis(low, high, LEFT, WIDTH - RIGHT)


def upwards(low: float, high: float) -> Axis:
    """From the bottom to the top of the plot."""
    return Axis(low, high, HEIGHT - BOTTOM, TOP)


def frame(x: Axis, y: Axis, x_name: str, y_name: str, marks: Mapping[float, str] | None = None) -> Markup:
    """Rules, numbers and names of both axes; `marks` are the places of x that are named, instead of its ticks."""
    marks = {tick: f"{tick:g}" for tick in x.ticks()} if marks is None else marks
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f"rotate(-90 13 {middle:g})"
    return join(
        *(tag("line", x1=x.start, x2=x.end, y1=y(t), y2=y(t), class_="rule") for t in y.ticks()),
        *(tag("text", f"{t:.4g}", x=LEFT - 6, y=y(t) + 4, text_anchor="end") for t in y.ticks()),
        *(tag("text", name, x=x(t), y=HEIGHT - BOTTOM + 17, text_anchor="middle") for t, name in marks.items()),
        tag("text", x_name, x=(x.start + x.end) / 2, y=HEIGHT - 6, text_anchor="middle", class_="name"),
        tag("text", y_name, x=13.0, y=middle, text_anchor="middle", transform=turned, class_="name"),
    )


@dataclass(frozen=True)
class Rise:
    """A barrier as it is drawn: at x, from the chord up to the curve."""

    x: float
    low: float
    high: float
    text: str


def line_chart(
    series: Mapping[str, Points],
    x_name: str,
    y_name: str,
    *,
    chords: bool = False,
    marks: Mapping[float, str] | None = None,
    rise: Rise | None = None,
) -> Markup:
    """Every series as a line with its points.  `chords` joins the ends of each and marks them."""
    xs, ys = ([point[i] for points in series.values() for point in points] for i in (0, 1))
    room = 0.06 * (max(ys) - min(ys) or 1.0)
    x, y = across(min(xs), max(xs)), upwards(min(ys) - room, max(ys) + room)
    drawn = [_line(i, name, points, x, y, chords) for i, (name, points) in enumerate(series.items())]
    label = f"{y_name} over {x_name}: {', '.join(series)}"
    return picture(WIDTH, HEIGHT, label, frame(x, y, x_name, y_name, marks), *drawn, rise and _rise(rise, x, y))


def _line(number: int, name: str, points: Points, x: Axis, y: Axis, chords: bool) -> Markup:
    places = [(x(a), y(b)) for a, b in points]
    path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
    ends = {0, len(places) - 1} if chords else set()
    dots = [
        tag("circle", tag("title", f"{name}: {points[i][1]:.4g} at {points[i][0]:.3g}"), cx=a, cy=b,
            r=5 if i in ends else 2.6, class_="end" if i in ends else "dot")
        for i, (a, b) in enumerate(places)
    ]  # fmt: skip
    (x1, y1), (x2, y2) = places[0], places[-1]
    chord = tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="chord") if chords else None
    return tag("g", chord, tag("path", d=path, class_="line"), *dots, class_=f"s{number}")


def _rise(rise: Rise, x: Axis, y: Axis) -> Markup:
    at, left = x(rise.x), rise.x > (x.low + x.high) / 2
    words = tag(
        "text", rise.text, x=at + (-8 if left else 8), y=(y(rise.low) + y(rise.high)) / 2,
        text_anchor="end" if left else "start", class_="value",
    )  # fmt: skip
    return tag("g", tag("line", x1=at, x2=at, y1=y(rise.low), y2=y(rise.high), class_="rise"), words)


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
