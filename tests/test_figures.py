"""Pages that quote benchmarks say what was measured."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


def results(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "benchmarks" / f"{name}.json").read_text())["results"]
    return found


def table(page: str, header: str) -> list[list[str]]:
    """The cells of the table with this header."""
    lines = (ROOT / "docs" / page).read_text().splitlines()
    start = lines.index(f"| {header} |") + 2
    cells = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        cells.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return cells


def shown(x: float) -> str:
    """Two digits, and no minus before zero."""
    return f"{round(x, 2) + 0.0:.2f}"


def test_many_models():
    ways = results("many")["ways"]
    expected = []
    for way, found in ways.items():
        middles = " / ".join(shown(x["excess"]) for x in found["surface"]["midpoints"])
        cells = [shown(found["centre excess"]), f"{found['centre accuracy']:.1%}", middles, shown(found["barrier"])]
        expected.append([way, *cells, f"{found['flat']:.0%}"])
    lines = table("many.md", "way | centre | its accuracy | middles of A–B / A–C / B–C | barrier | flat")
    assert lines == expected
    learned = min(found["flat"] for way, found in ways.items() if way.startswith("refined"))
    assert learned > max(found["flat"] for way, found in ways.items() if not way.startswith("refined"))


def test_unequal_sizes():
    found = results("sizes")
    expected = [
        [f"`{pair.replace(' and ', '` and `')}`", way, f"{shown(x['barrier'])} at {x['barrier at']:.1f}",
         shown(x["excess at 0.1"]), shown(x["excess at 0.9"]), f"{x['midpoint accuracy']:.1%}"]
        for pair, ways in found["pairs"].items() for way, x in ways.items()
    ]  # fmt: skip
    assert table("sizes.md", "pair | method | barrier | at λ = 0.1 | at λ = 0.9 | midpoint") == expected
    assert max(found["drift of widening alone"].values()) < 1e-9
    for ways in found["pairs"].values():
        steps = [ways[way]["barrier"] for way in ("as they are", "activation", "learned")]
        assert all(after < before for before, after in pairwise(steps))


@pytest.mark.parametrize(("name", "page"), [("many", "many.md"), ("sizes", "sizes.md")])
def test_the_page_names_file_and_command(name, page):
    text = (ROOT / "docs" / page).read_text()
    assert f"benchmarks/{name}.json" in text
    assert f"python benchmarks/run.py {name}" in " ".join(text.split())


def test_first_figures_of_learning():
    expected = [
        [f"`{x['pair']}`", x["start"], x["optimizer"], x["sides"], f"{x['steps']:,}", f"{x['barrier']:.3f}"]
        for x in results("explored")["rows"]
    ]
    assert table("learning.md", "pair | start | optimiser, rate | sides | steps | barrier") == expected
