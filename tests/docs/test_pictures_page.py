"""tests/snapshots/pictures.md: lines, words and colours of the pictures of matplotlib, from made-up figures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.collections import Collection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from helpers.made_up import point
from helpers.pages import SNAPSHOTS, check_page
from onebasin.landscape import Curve, Evaluation
from onebasin.report.pictures import plot, ternary
from onebasin.reproduce.tables import draw

INTRODUCTION = """# Pictures

What the pictures hold that onebasin draws by matplotlib, here of made-up figures: sizes in inches, axes from left to
right with their lines, areas and words. A test reads this from the pictures, so that a change of any of them is seen.

"""


def numbers(values: Any) -> str:
    return " ".join(f"{x:.4g}" for x in np.ravel(np.asarray(values, dtype=float)))


def words_of(axes: Any) -> str:
    found = [x for x in axes.findobj(Text) if x.get_visible() and x.get_text() and x not in axes.get_xticklabels()]
    return "; ".join(dict.fromkeys(f"{x.get_text()!r} {to_hex(x.get_color())} {x.get_fontsize():g}" for x in found))


def lines_of(axes: Any) -> Iterator[str]:
    for x in axes.findobj(Line2D):
        if x.axes is axes and x in axes.lines:
            look = f"{x.get_linestyle()} {x.get_linewidth():g}, marker {x.get_marker()} {x.get_markersize():g}"
            clip = "" if x.get_clip_on() else ", over the edge"
            yield f"line {to_hex(x.get_color())} {look}{clip}: {numbers(x.get_xdata())} | {numbers(x.get_ydata())}"
    for x in axes.findobj(Collection):
        if x in axes.collections and len(x.get_paths()) < 3:
            width = numbers(x.get_linewidth())
            yield f"area {x.get_alpha()} {width}: {numbers(x.get_datalim(axes.transData).get_points())}"


def told(figure: Figure) -> Iterator[str]:
    yield f"{numbers(figure.get_size_inches())}, {figure.get_layout_engine().__class__.__name__}"
    yield from (f"above: {x.get_text()!r} {to_hex(x.get_color())}" for x in figure.texts)
    if (title := figure.get_suptitle()) != "":
        yield f"title: {title!r} {to_hex(figure._suptitle.get_color())}"
    for axes in figure.axes:
        ticks = [x.get_text() for x in axes.get_xticklabels()]
        edges = [name for name, spine in axes.spines.items() if spine.get_visible()]
        legend = axes.get_legend()
        frame = "" if legend is None else f"; legend {legend.get_frame_on()} {legend._loc}"
        yield f"axes {' '.join(edges)}; drawn {axes.axison}; {axes.get_aspect()}; ticks {ticks}{frame}"
        yield f"words: {words_of(axes)}"
        yield from lines_of(axes)


@contextmanager
def caught(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is saved meanwhile, and how."""
    found: list[str] = []

    def save(figure: Figure, file: Any, **settings: Any) -> None:
        figure.canvas.draw()
        name = file.name if isinstance(file, Path) else "text"
        found.extend([f"{name}, {settings}", *told(figure)])

    with monkeypatch.context() as patched:
        patched.setattr(Figure, "savefig", save)
        yield found


def curve(*losses: float) -> Curve:
    n = len(losses)
    each = [Evaluation(x, {"accuracy": 1 / (1 + x), "bits_per_byte": x}, 0.1, 2, torch.tensor([x, x])) for x in losses]
    return Curve(tuple((1 - i / (n - 1), i / (n - 1)) for i in range(n)), tuple(each), "factor", {"name": "made up"})


def surface(barrier: float) -> dict[str, Any]:
    shares = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5], [1 / 3] * 3]
    points = [point(1 + 0.1 * i, 0.9 - 0.1 * i) for i in range(7)]
    return {"models": list("xyz"), "shares": shares, "points": points, "vertices": points[:3],
            "barrier": {"loss": barrier, "standard_error": 0.01, "shares": shares[6]}}  # fmt: skip


def table() -> dict[str, Any]:
    def line(group: str, label: str, losses: list[float]) -> dict[str, Any]:
        return {"group": group, "label": label, "paths": {"factor": {"shares": [0.0, 0.5, 1.0], "losses": losses}}}

    groups = [line(f"group {i}", label, [1.0, height + i, 1.2]) for i in range(5)
              for label, height in (("vanilla", 3.0), ("learned", 1.1))]  # fmt: skip
    return {"table": [*groups, {"group": "none", "label": "missing"}]}


@pytest.mark.page
def test_the_page_shows_what_is_drawn(monkeypatch):
    high, low = curve(1, 2.5, 4, 2, 1.5), curve(1, 1.05, 1.1, 1.05, 1)
    parts = [INTRODUCTION]
    for name, make in {
        "Curves": lambda: plot({"before": high, "_after": low}, Path("curves.svg")),
        "One curve": lambda: plot({"one": low}, "one.png", metric="bits_per_byte"),
        "Three models": lambda: ternary(surface(0.5)),
        "Three models without a barrier": lambda: ternary(surface(0.0)),
        "A table of a paper": lambda: draw(table(), Path("table.svg")),
    }.items():
        with caught(monkeypatch) as found:
            make()
        parts.append("\n".join([f"## {name}\n", "```", *found, "```", ""]))
    check_page(SNAPSHOTS / "pictures.md", "\n".join(parts))
