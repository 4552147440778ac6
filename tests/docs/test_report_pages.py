"""tests/snapshots/reports/: what reports look like, drawn from figures that nobody measured, word by word."""

from __future__ import annotations

from importlib.resources import files

import pytest

from helpers.made_up import (
    ALIGNED,
    AS_THEY_ARE,
    DEMO,
    HIGH,
    MERGED,
    SCORES,
    SURFACE,
    WRITTEN,
    curve,
)  # fmt: skip
from helpers.pages import SNAPSHOTS, check_page
from onebasin.report.html.facts import Facts
from onebasin.report.html.page import page

REPORTS = SNAPSHOTS / "reports"
VERSIONS = {"onebasin": "0", "torch": "0"}
FACTS = {
    "demo": Facts("demo", ["a", "b"], AS_THEY_ARE, DEMO, {**MERGED, "verb": "align"}, scores=SCORES, versions=VERSIONS),
    "merge": Facts("merge", ["x", "y"], {"x to y": MERGED["path"]}, certificate=MERGED, scores=SCORES,
                   recipe="\n", versions=VERSIONS, warnings=["`x` was read twice."]),
    "align": Facts("align", ["x", "y", "z"], recipe="\n", certificate={
        "method": "weight", "written": WRITTEN, "why": "by the lower path", "heads": {}, "angles": {},
        "aligned": [{"model": "y", **ALIGNED}, {"model": "z", **ALIGNED, "converged": True, "heads": {}}]}),
    "barrier": Facts("barrier", ["x", "y"], {"one": HIGH, "other": curve(1, 1.01, 1.02, 1.01, 1)}, recipe="\n"),
    "barrier-many": Facts("barrier", list("wxyz"), surface=SURFACE, recipe="\n"),
}  # fmt: skip


@pytest.mark.page
@pytest.mark.parametrize("name", FACTS)
def test_a_report_is_drawn_as_it_was(name):
    """But for the style sheet, which is a file of its own."""
    REPORTS.mkdir(exist_ok=True)
    head, style, body = page(FACTS[name]).partition((files("onebasin.report.html") / "style.css").read_text("utf-8"))
    assert style
    check_page(REPORTS / f"{name}.html", head + body)
