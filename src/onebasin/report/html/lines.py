"""Line charts: curves on a path with their chords, and the course of learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onebasin.report.html.axes import HEIGHT, WIDTH, Axis, across, frame, upwards
from onebasin.report.html.markup import Markup, picture, tag

Points = Sequence[tuple[float, float]]


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
