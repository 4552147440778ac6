"""The picture of a surface over three models: a triangle, coloured by the loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

import numpy as np

from onebasin.errors import OnebasinError

FLAT = 0.01  # a smaller range of losses is not blown up to all colours
CORNERS = ((0.0, 0.0), (1.0, 0.0), (0.5, 3**0.5 / 2))


def ternary(surface: Mapping[str, Any]) -> str:
    """SVG of `Surface.as_dict()` for three models, with their names under "models" where it has them."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure  # not pyplot: no window system, no global state

    if len(surface["shares"][0]) != 3:
        found = len(surface["shares"][0])
        raise OnebasinError("A triangle has three corners", expected="three models", found=found)
    names = surface.get("models", ["A", "B", "C"])
    x, y = zip(*(place(point) for point in surface["shares"]), strict=True)
    losses = [point["loss"] for point in surface["points"]]
    with rc_context({"svg.hashsalt": "onebasin", "svg.fonttype": "none"}):  # equal surfaces, equal files
        figure = Figure(figsize=(5.6, 4.4), layout="constrained")
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
