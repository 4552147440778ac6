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
    draw_line(axes, curve, metric, **style)
    axes.set_xlabel("share of B")
    axes.set_ylabel(metric.replace("_", " "))
    if "label" in style:
        axes.legend()
    return axes


def draw_line(axes: Axes, curve: Curve, metric: str = "loss", **style: Any) -> None:
    """One curve: its points, a band of one standard error around the loss, the chord between the end points."""
    table = rows(curve)
    values = [row[metric] for row in table]
    colour = axes.plot(curve.shares, values, marker=".", **style)[0].get_color()
    if metric == "loss":
        low, high = ([row["loss"] + sign * row["standard_error"] for row in table] for sign in (-1, 1))
        axes.fill_between(curve.shares, low, high, color=colour, alpha=0.2, linewidth=0)
    ends = [curve.shares[0], curve.shares[-1]], [values[0], values[-1]]
    axes.plot(*ends, linestyle="--", linewidth=0.8, marker="o", color=colour)
