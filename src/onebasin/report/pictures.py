"""Pictures of what was measured between models: curves between two, a triangle coloured by the loss over three."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onebasin.errors import BadOutput, OnebasinError
from onebasin.landscape import Curve
from onebasin.landscape.evaluate import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png")
FIXED: Any = {"svg.hashsalt": "onebasin", "svg.fonttype": "none", "text.parse_math": False}  # $x$ may be a name
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
    with _figure(9, 3.6) as figure:
        loss, other = figure.subplots(1, 2)
        for name, curve in curves.items():
            name = f" {name}" if name.startswith("_") else name  # matplotlib leaves such names out of the legend
            _draw_loss(loss, name, curve)
            values = [e.metrics[metric] for e in curve.evaluations]
            _finish(other, other.plot(curve.shares, values, marker=".", label=name)[0].get_color(), curve, values)
        _label(loss, "loss (nats)")
        _label(other, metric.replace("_", " "))
        figure.savefig(out, dpi=150, metadata={"Date": None} if out.suffix == ".svg" else None)


def main_metric(curves: Sequence[Curve]) -> str:
    """The metric that all curves have and that says most."""
    own = [m for curve in curves for m in curve.evaluations[0].metrics]
    shared = [m for m in (*METRICS, *own) if all(m in e.metrics for curve in curves for e in curve.evaluations)]
    if not curves or not shared:
        step = "draw curves of one kind of task together"
        raise OnebasinError("These curves have no metric in common", expected=", ".join(METRICS), next_step=step)
    return shared[0]


def _draw_loss(axes: Axes, name: str, curve: Curve) -> None:
    losses = [e.loss for e in curve.evaluations]
    errors = [e.standard_error for e in curve.evaluations]
    label = f"{name}: barrier {curve.barrier:.3g} at λ = {curve.barrier_at:.2g}"
    line = axes.errorbar(curve.shares, losses, yerr=errors, marker=".", label=label)
    _finish(axes, line[0].get_color(), curve, losses)


def _finish(axes: Axes, colour: Any, curve: Curve, values: Sequence[float]) -> None:
    """The chord between the end points, and the end points themselves."""
    ends = ([curve.shares[0], curve.shares[-1]], [values[0], values[-1]])
    axes.plot(*ends, linestyle="--", linewidth=0.8, color=colour)
    axes.plot(*ends, linestyle="", marker="o", color=colour)


def _label(axes: Axes, what: str) -> None:
    axes.set_xlabel("λ, share of B")
    axes.set_ylabel(what)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["A", "0.25", "0.5", "0.75", "B"])
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1))  # above the picture


def ternary(surface: Mapping[str, Any]) -> str:
    """SVG of `Surface.as_dict()` for three models, with their names under "models" where it has them."""
    if len(surface["shares"][0]) != 3:
        found = len(surface["shares"][0])
        raise OnebasinError("A triangle has three corners", expected="three models", found=found)
    names = surface.get("models", ["A", "B", "C"])
    x, y = zip(*(place(point) for point in surface["shares"]), strict=True)
    losses = [point["loss"] for point in surface["points"]]
    with _figure(5.6, 4.4) as figure:
        axes = figure.subplots()
        levels = np.linspace(min(losses), max(*losses, min(losses) + FLAT), 25)
        filled = axes.tricontourf(x, y, losses, levels=levels, cmap="viridis")
        axes.plot(x, y, linestyle="", marker=".", markersize=3, color="white", clip_on=False)
        for (u, v), name, corner in zip(CORNERS, names, surface["vertices"], strict=True):
            axes.annotate(f"{name}\n{corner['loss']:.3f}", (u, v), (0, 6 if v else -6), textcoords="offset points",
                          ha="center", va="bottom" if v else "top")  # fmt: skip
        barrier = surface["barrier"]
        axes.plot(*place(barrier["shares"]), linestyle="", marker="x", color="red", clip_on=False)
        figure.suptitle(f"barrier {barrier['loss']:.3g} ± {barrier['standard_error']:.2g}, at the red cross")
        axes.set_aspect("equal")
        axes.axis("off")
        figure.colorbar(filled, ax=axes, label="loss (nats)", shrink=0.8, format="%.3g")
        drawn = StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return drawn.getvalue()


def place(shares: Sequence[float]) -> tuple[float, float]:
    """Where a point of the simplex lies in the picture."""
    x, y = (sum(w * corner[axis] for w, corner in zip(shares, CORNERS, strict=True)) for axis in (0, 1))
    return x, y
