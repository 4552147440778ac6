"""What tests read of the documentation, and pages that a test makes (ONEBASIN_WRITE=1 writes them)."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCS, README = ROOT / "docs", ROOT / "README.md"
SNAPSHOTS = ROOT / "tests" / "snapshots"  # what is for the tests alone: a change of it is to be seen


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def rows(page: Path, columns: str) -> list[list[str]]:
    """The cells of the table of a page whose header is `columns`."""
    _, _, table = page.read_text(encoding="utf-8").partition(f"| {columns} |\n")
    lines = table.splitlines()[1:]  # less the rule below the header
    end = next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return [[cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")] for line in lines[:end]]


def prose(page: Path) -> str:
    """A page with line breaks as spaces, to look for sentences."""
    return " ".join(page.read_text(encoding="utf-8").split())


def results(benchmark: str) -> dict[str, Any]:
    """What a benchmark measured."""
    found: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results" / f"{benchmark}.json").read_text())["results"]
    return found


def check_page(page: Path, text: str) -> None:
    """The page is what the code says now."""
    if os.environ.get("ONEBASIN_WRITE"):
        page.write_text(text, encoding="utf-8")
    stale = f"{page.name} is out of date: `make pages` writes it anew"
    assert page.exists(), stale
    assert page.read_text(encoding="utf-8") == text, stale


def check_part(page: Path, before: str, after: str, text: str) -> None:
    """What stands on a page between two marks is what the code says now."""
    head, mark, rest = page.read_text(encoding="utf-8").partition(before)
    _, end, tail = rest.partition(after)
    assert mark, f"{page.name} has no {before}"
    assert end, f"{page.name} has no {after}"
    check_page(page, head + mark + text + end + tail)
