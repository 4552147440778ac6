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
same command goes on where it was stopped, and `--limit-minutes 9` stops it in good time. Barriers are mean ± standard
error over pairs, on test data. What we know of a paper only from summaries is marked second-hand. What of the papers we
confirm so far: [decision 0017](decisions/0017-what-of-the-papers-holds.md).

"""


@pytest.mark.page
def test_the_page_shows_what_was_measured():
    check_part(DOCS / "papers.md", BEFORE, AFTER, INTRODUCTION + page(ROOT / "benchmarks" / "results" / "reproduce"))


RECORDED = {  # all tables, figures and protocols that we know of, and a word of each
    "first paper": [
        "Table 2: loss barriers", "| CIFAR-10 | vanilla | 1.69 ± 0.07 |", "| CIFAR-10 | activation | 1.27 ± 0.13 |",
        "| CIFAR-10 | weight | 0.36 ± 0.01 |", "| CIFAR-10 | learned, permutations | 0.45 ± 0.02 |",
        "| Tiny Shakespeare | vanilla | 2.02 ± 0.12 |", "| Tiny Shakespeare | activation | 1.43 ± 0.16 |",
        "| Tiny Shakespeare | weight | 0.34 ± 0.01 |", "| Tiny Shakespeare | learned, permutations | 0.63 ± 0.17 |",
        "CIFAR-100", "Tiny ImageNet", "BookCorpus", "83.81 ± 0.44 %", "run by others", "Figure 7", "algorithm 1",
        "from the identity", "λ half", "λ full", "λ normal", "soft permutations", "angles near zero", "orders hardly",
        "three models on the simplex", "512 and 256 wide", "512 and 128 wide", "512 and 64 wide", "512 and 32 wide",
        "half the units | shares", "half the heads | shares", "multiplied out", "words of the training text",
    ],
    "second paper": [
        *(f"| {model}, {positions}, {part} | matched |" for model in ("GPT-2", "BERT") for positions in ("APE", "RoPE")
          for part in ("first attention", "all attention", "first layer", "everything")),
        "62 to 91 %", "10 to 16 %", "7 to 12 %", "all 24 orders", "heads by cosine", "heads by spectral", "theorems",
        "MNIST", "ImageNet-1k", "ImageNet-21k", "IMDB", "DBPedia", "Enwik8", "WikiText-103", "1BW", "Llama on",
        "generic",
    ],
    "third paper": [
        "dual against one-sided", "Llama, 768 wide | dual", "GPT-2, 768 wide | dual", "one-sided, exponential",
        "one-sided, polar", "one-sided, scale of the stream", "ViT-L", "Pythia", "a billion weights",
    ],
}  # fmt: skip


def test_nothing_that_the_papers_show_is_left_out(tmp_path):
    whole = page(tmp_path)
    missing = [word for words in RECORDED.values() for word in words if word not in whole]
    assert missing == []


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
