"""What was measured between models as rows of a table, as HTML and as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onebasin.ensemble.words import html_table, letter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onebasin.landscape.curve import Curve, Surface


def rows(surface: Surface) -> list[dict[str, float]]:
    """One row for each point: the shares of the models, the loss with its error and its rise, and all metrics."""
    found = []
    for i, (place, here) in enumerate(zip(surface.points, surface.evaluations, strict=True)):
        shares = {f"share_{letter(m).lower()}": share for m, share in enumerate(place)}
        loss = {"loss": here.loss, "standard_error": here.standard_error, "excess": surface.excess(i)}
        found.append({**shares, **loss, **here.metrics})
    return found


def as_html(surface: Surface) -> str:
    """The barrier and all points."""
    table = rows(surface)
    return html_table(repr(surface), list(table[0]), [[f"{x:.4g}" for x in row.values()] for row in table])


def draw(curve: Curve, axes: Axes | None, metric: str, **style: Any) -> Axes:
    """The loss (with its error) or a metric over the share of B, and the chord between the models themselves."""
    if axes is None:
        from matplotlib import pyplot

        axes = pyplot.subplots()[1]
    table = rows(curve)
    values = [row[metric] for row in table]
    errors = [row["standard_error"] for row in table] if metric == "loss" else None
    line = axes.errorbar(curve.shares, values, yerr=errors, marker=".", **style)[0]
    ends = [0, 1], [values[0], values[-1]]
    axes.plot(*ends, linestyle="--", linewidth=0.8, marker="o", color=line.get_color())
    axes.set_xlabel("share of B")
    axes.set_ylabel(metric.replace("_", " "))
    if "label" in style:
        axes.legend()
    return axes
