"""Pictures of what was measured between models: curves between two, a triangle coloured by the loss over three."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onebasin.errors import BadOutput, OnebasinError
from onebasin.landscape import Curve
from onebasin.landscape.evaluate import METRICS
from onebasin.landscape.tables import plus_minus
from onebasin.landscape.views import draw_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png")
FIXED: Any = {"svg.hashsalt": "onebasin", "svg.fonttype": "none", "text.parse_math": False}  # $x$ may be a name
INK, PAPER = "#1d2125", "#fcfcfb"  # of the triangles; a page puts its own in their place
LOW = 0.25  # curves that stay in this lowest part of a picture are drawn again, larger
FLAT = 0.01  # a smaller range of losses is not blown up to all colours
CORNERS = ((0.0, 0.0), (1.0, 0.0), (0.5, 3**0.5 / 2))


@contextmanager
def _figure(width: float, height: float) -> Iterator[Figure]:
    """An empty picture: no window system, no global state, and equal data make equal files."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(FIXED):
        yield Figure(figsize=(width, height), layout="constrained")


def plot(curves: Mapping[str, Curve], out: str | Path, *, metric: str | None = None) -> None:
    """Draw every curve, named by its key, with its chord, into one SVG or PNG file."""
    out = Path(out)
    if out.suffix not in FORMATS:
        step = "give a name that ends in .svg or .png"
        raise BadOutput(
            f"{out.name} is no kind of picture", expected=", ".join(FORMATS), found=out.suffix, next_step=step
        )
    metric = metric or main_metric(list(curves.values()))
    low = squashed({name: [e.loss for e in curve.evaluations] for name, curve in curves.items()})
    with _figure(13.5 if low else 9, 3.6) as figure:
        loss, *close, other = figure.subplots(1, 3 if low else 2)
        for i, (key, curve) in enumerate(curves.items()):
            name = f" {key}" if key.startswith("_") else key  # matplotlib leaves such names out of the legend
            height = f"barrier {curve.barrier:.3g} at λ = {curve.barrier_at:.2g}" if curve.barrier > 0 else "no barrier"
            for axes in (loss, *(close if key in low else ())):
                draw_line(axes, curve, label=f"{name}: {height}", color=f"C{i}")
            draw_line(other, curve, metric, label=name, color=f"C{i}")
        for axes, what in zip((loss, *close, other), ("loss (nats)", *(["low curves"] if low else []), metric),
                              strict=True):  # fmt: skip
            _label(axes, what.replace("_", " "))
        figure.savefig(out, dpi=150, metadata={"Date": None} if out.suffix == ".svg" else None)


def squashed(curves: Mapping[str, Sequence[float]]) -> list[str]:
    """The curves that a much higher one presses flat onto the bottom of a picture; none where all are readable."""
    low = min(min(values) for values in curves.values())
    high = max(max(values) for values in curves.values())
    found = [name for name, values in curves.items() if max(values) < low + LOW * (high - low)]
    return found if len(found) < len(curves) else []


def main_metric(curves: Sequence[Curve]) -> str:
    """The metric that all curves have and that says most."""
    own = [m for curve in curves for m in curve.evaluations[0].metrics]
    shared = [m for m in (*METRICS, *own) if all(m in e.metrics for curve in curves for e in curve.evaluations)]
    if not curves or not shared:
        step = "draw curves of one kind of task together"
        raise OnebasinError("These curves have no metric in common", expected=", ".join(METRICS), next_step=step)
    return shared[0]


def _label(axes: Axes, what: str) -> None:
    axes.set_xlabel("λ, share of B")
    axes.set_ylabel(what)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["A", "0.25", "0.5", "0.75", "B"])
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1))  # above the picture


def ternary(surface: Mapping[str, Any]) -> str:
    """SVG of `Surface.as_dict()` for three models, with their names under "models" where it has them.

    One triangle is coloured by the loss, one by the metric that says most.
    """
    if len(surface["vertices"]) != 3:
        raise OnebasinError("A triangle has three corners", expected=3, found=len(surface["vertices"]))
    points, barrier = surface["points"], surface["barrier"]
    metric = next((name for name in (*METRICS, *points[0]["metrics"]) if name in points[0]["metrics"]), None)
    values: dict[str, Callable[[Any], float]] = {"loss (nats)": lambda point: point["loss"]}
    if metric is not None:
        values[metric.replace("_", " ")] = lambda point: point["metrics"][metric]
    with _figure(5.2 * len(values), 4.4) as figure:
        for axes, what in zip(figure.subplots(1, len(values), squeeze=False)[0], values, strict=True):
            _triangle(axes, surface, what, values[what])
        height = f"barrier {plus_minus(barrier['loss'], barrier['standard_error'])}, at the red cross"
        figure.suptitle(height if barrier["loss"] > 0 else "no barrier", color=INK)
        drawn = StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None}, facecolor=PAPER)
    return drawn.getvalue()


def _triangle(axes: Axes, surface: Mapping[str, Any], what: str, value: Callable[[Any], float]) -> None:
    """The averages of three models, coloured by one of their figures."""
    values = [value(point) for point in surface["points"]]
    x, y = zip(*(place(point) for point in surface["shares"]), strict=True)
    levels = np.linspace(min(values), max(*values, min(values) + FLAT), 25)
    filled = axes.tricontourf(x, y, values, levels=levels, cmap="viridis")
    axes.plot(x, y, linestyle="", marker=".", markersize=3, color="white", clip_on=False)
    for (u, v), name, corner in zip(CORNERS, surface.get("models", "ABC"), surface["vertices"], strict=True):
        words, below = f"{name}\n{value(corner):.3f}", v == 0
        axes.annotate(words, (u, v), (0, -6 if below else 6), textcoords="offset points", ha="center",
                      va="top" if below else "bottom", color=INK)  # fmt: skip
    if surface["barrier"]["loss"] > 0:
        axes.plot(*place(surface["barrier"]["shares"]), linestyle="", marker="x", color="red", clip_on=False)
    axes.set_aspect("equal")
    axes.axis("off")
    bar = axes.figure.colorbar(filled, ax=axes, shrink=0.8, format="%.3g")
    bar.set_label(what, color=INK)
    bar.ax.tick_params(color=INK, labelcolor=INK)
    bar.outline.set_edgecolor(INK)


def place(shares: Sequence[float]) -> tuple[float, float]:
    """Where a point of the simplex lies in the picture."""
    x, y = (sum(w * corner[axis] for w, corner in zip(shares, CORNERS, strict=True)) for axis in (0, 1))
    return x, y
