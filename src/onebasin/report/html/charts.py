"""Charts as SVG: axes with round ticks, lines with their chords and bands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from onebasin.report.html.markup import Markup, join, picture, tag

WIDTH, HEIGHT = 440.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 14.0, 14.0, 42.0
STRIP = 20.0  # the room above all lines for words about one of them
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
        *(tag("text", f"{t:.4g}", x=LEFT - 10, y=y(t) + 4, text_anchor="end") for t in y.ticks()),
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
    errors: Mapping[str, Sequence[float]] | None = None,
    shown: Sequence[str] | None = None,
) -> Markup:
    """Every series as a line with its points.  `chords` joins the ends of each and marks them.

    `errors` are half the heights of the bands around the lines.  Of some series `shown` alone, each keeps its colour.
    """
    shown = list(series) if shown is None else shown
    bands = {name: _band(series[name], errors[name] if errors else None) for name in shown}
    xs = [at for name in shown for at, _ in series[name]]
    ys = [value for name in shown for ends in bands[name] for _, value in ends]
    room = 0.06 * (max(ys) - min(ys) or 1.0)
    x, y = across(min(xs), max(xs)), upwards(min(ys) - room, max(ys) + room)
    y = replace(y, end=TOP + STRIP) if rise else y
    drawn = [_line(i, name, series[name], x, y, chords) for i, name in enumerate(series) if name in shown]
    areas = [_area(i, *bands[name], x, y) for i, name in enumerate(series) if name in shown and errors]
    label = f"{y_name} over {x_name}: {', '.join(shown)}"
    axes = frame(x, y, x_name, y_name, marks)
    return picture(WIDTH, HEIGHT, label, axes, *areas, rise and _rise(rise, x, y), *drawn)


def _band(points: Points, errors: Sequence[float] | None) -> tuple[Points, Points]:
    """The lower and the upper edge of a line with its errors."""
    errors = [0.0] * len(points) if errors is None else errors
    low, high = ([(a, b + sign * e) for (a, b), e in zip(points, errors, strict=True)] for sign in (-1, 1))
    return low, high


def _area(number: int, low: Points, high: Points, x: Axis, y: Axis) -> Markup:
    edge = "M" + "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in (*low, *reversed(high))) + "Z"
    return tag("g", tag("path", d=edge, class_="band"), class_=f"s{number}")


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
    """The words stand above all lines, so that none runs through them."""
    at, third = x(rise.x), (x.end - x.start) / 3
    anchor = "start" if at < x.start + third / 2 else "end" if at > x.end - third / 2 else "middle"
    words = tag("text", rise.text, x=at, y=TOP + STRIP - 6, text_anchor=anchor, class_="value")
    return tag("g", tag("line", x1=at, x2=at, y1=y(rise.low), y2=y(rise.high), class_="rise"), words)
