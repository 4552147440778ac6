"""Pictures of curves: loss and metric along the path, with end points and chord."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onebasin.errors import BadOutput, OnebasinError
from onebasin.landscape import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".svg", ".png")
METRICS = ("bits_per_byte", "perplexity", "accuracy")  # the first that was measured is drawn


def plot(curves: Mapping[str, Curve], out: str | Path, *, metric: str | None = None) -> None:
    """Draw every curve, named by its key, with its chord, into one SVG or PNG file."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure  # not pyplot: no window system, no global state

    out = Path(out)
    if out.suffix not in FORMATS:
        step = "give a name that ends in .svg or .png"
        raise BadOutput(
            f"{out.name} is no kind of picture", expected=", ".join(FORMATS), found=out.suffix, next_step=step
        )
    metric = metric or main_metric(list(curves.values()))
    with rc_context({"svg.hashsalt": "onebasin", "svg.fonttype": "none"}):  # equal curves, equal files
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        loss, other = figure.subplots(1, 2)
        for name, curve in curves.items():
            _draw_loss(loss, name, curve)
            values = [e.metrics[metric] for e in curve.evaluations]
            _finish(other, other.plot(curve.shares, values, marker=".", label=name)[0].get_color(), curve, values)
        _label(loss, "loss (nats)")
        _label(other, metric.replace("_", " "))
        figure.savefig(out, dpi=150, metadata={"Date": None} if out.suffix == ".svg" else None)


def main_metric(curves: Sequence[Curve]) -> str:
    """The metric that all curves have and that says most."""
    shared = [m for m in METRICS if all(m in e.metrics for curve in curves for e in curve.evaluations)]
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
