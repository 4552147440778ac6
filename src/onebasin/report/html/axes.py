"""Axes of a chart: values on pixels, round ticks, and the frame around a plot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from onebasin.report.html.markup import Markup, join, tag

WIDTH, HEIGHT = 440.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 54.0, 14.0, 14.0, 42.0


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
