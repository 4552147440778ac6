"""What the page on the papers shows of our numbers is what was measured."""

from __future__ import annotations

import json

import pytest

from helpers.pages import DOCS, ROOT, check_part
from onebasin.reproduce.page import MISSING, page
from onebasin.reproduce.registry import ENTRIES

BEFORE, AFTER = "## Published beside ours\n\n", "## BibTeX"
INTRODUCTION = """\
`onebasin reproduce NAME -o OUT` trains the models of a table or figure, aligns them, measures, and prints published
beside ours; `onebasin reproduce --list` has all names. The budget `tiny` makes its own data and takes minutes on a CPU;
`small` is what the tables below show, minutes on one GPU; `paper` is the published setting. What is done is kept: the
same command goes on where it was stopped. Barriers are mean ± standard error over pairs, on test data. What we know of
a paper only from summaries is marked second-hand.

"""


@pytest.mark.page
def test_the_page_shows_what_was_measured():
    check_part(DOCS / "papers.md", BEFORE, AFTER, INTRODUCTION + page(ROOT / "benchmarks" / "results" / "reproduce"))


def test_what_is_not_measured_is_said_and_what_is_measured_is_shown(tmp_path):
    empty = page(tmp_path)
    assert empty.count(f"| {MISSING} |") >= sum(len(entry.published) for entry in ENTRIES.values())
    barrier = {"mean": 0.1234, "standard_error": 0.01}
    paths = {"factor": {"barrier": barrier, "ends": {"mean": 1.0, "standard_error": None}}}
    published = str(ENTRIES["p1-table2"].published["CIFAR-10", "weight"])
    table = [{"group": "CIFAR-10", "label": "weight", "published": published, "pairs": 3, "paths": paths}]
    found = {"budget": "small", "device": "a GPU", "table": table}
    (tmp_path / "p1-table2.json").write_text(json.dumps(found))
    assert "| CIFAR-10 | weight | 0.36 ± 0.01 |  | 0.123 ± 0.010 | 1.000 | 3 |" in page(tmp_path)
