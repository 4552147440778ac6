"""docs/worth.md says what benchmarks/results/worth.json and embedders.json hold."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.pages import DOCS, README, check_part, prose, results

HEADER = "| model | accuracy | error | seconds |\n"
TASKS = {"text": ("wiki", "python"), "images": ("first", "second"), "topics": ("first", "second")}
MERGES = ("A", "B", "plain average", "ensemble", "weight", "auto", "aligned", "aligned, shares")
STARTS = ("A", "B", "plain average", "aligned", "from nothing")


def pair(value: dict[str, Any]) -> str:
    return f"{value['mean']:.3f} ± {value['standard error']:.3f}"


def losses(row: dict[str, Any], tasks: tuple[str, str]) -> str:
    return f"{row[tasks[0]]['mean']:.2f}, {row[tasks[1]]['mean']:.2f}"


@pytest.mark.page
@pytest.mark.parametrize("setting", TASKS)
def test_the_table_of_experts(setting):
    found, tasks = results("worth")[setting], TASKS[setting]
    lines = [
        f"| {name} | {pair(row['loss'])} | {losses(row, tasks)} | {pair(row['accuracy'])} | {row['cost']:.0f} |"
        for name, row in ((name, found[name]) for name in MERGES)
    ]
    header = f"| {setting} | mean loss | {tasks[0]}, {tasks[1]} | accuracy | cost |\n|---|---|---|---|---|\n"
    check_part(DOCS / "worth.md", header, "\n\n", "\n".join(lines))


@pytest.mark.page
@pytest.mark.parametrize("setting", TASKS)
def test_the_table_of_training_that_goes_on(setting):
    steps, found = results("worth")["steps of training after"], results("worth")[setting]
    lines = []
    for start in STARTS:
        rows = [
            found.get(f"{start}, {then}{n}") for then in ("" if start == "from nothing" else "then ",) for n in steps
        ]
        cells = [f"{pair(row['loss'])} ({row['accuracy']['mean']:.3f})" if row else "" for row in rows]
        lines.append(f"| {start} | {' | '.join(cells)} |")
    header = f"| {setting}, trained on from | {' | '.join(f'{n:,} steps' for n in steps)} |\n|---|---|---|---|\n"
    check_part(DOCS / "worth.md", header, "\n\n", "\n".join(lines))


def test_the_first_sentences_on_experts_quote_the_table():
    better, plain, auto, both = (
        f"{results('worth')['text'][row]['loss']['mean']:.2f}" for row in ("B", "plain average", "auto", "ensemble")
    )
    assert f"mean loss of {better} on both, their plain average {plain}, both run together {both}" in prose(README)
    assert f"one model of them that has {auto}" in prose(README)
    rest = f"the better of the two has {better}, their plain average {plain}, both run together {both}"
    assert f"mean loss of {auto}; {rest}" in prose(DOCS / "worth.md")


def test_what_is_said_of_merges_that_pay():
    """Of the text: without data at the level of the ensemble, with shares below it; and images need data."""
    text, images = results("worth")["text"], results("worth")["images"]
    assert text["auto"]["loss"]["mean"] < min(1.60, text["B"]["loss"]["mean"])
    assert text["aligned"]["loss"]["mean"] < text["ensemble"]["loss"]["mean"] + 0.02
    assert text["aligned, shares"]["loss"]["mean"] < text["ensemble"]["loss"]["mean"]
    assert images["auto"]["accuracy"]["mean"] < images["B"]["accuracy"]["mean"] < images["aligned"]["accuracy"]["mean"]


@pytest.mark.page
def test_the_table_of_embedding_models():
    lines = [
        f"| {name} | {row['accuracy']:.3f} ± {row['standard_error']:.3f} | {row['error']:.3f} | {row['seconds']:.0f} |"
        for name, row in results("embedders")["rows"].items()
    ]
    check_part(DOCS / "worth.md", HEADER + "|---|---|---|---|\n", "\n\n", "\n".join(lines))


@pytest.mark.page
def test_the_table_of_skip_connections():
    lines = [
        f"| {name} | {min(each):z.2f} | {sum(each) / len(each):z.2f} | {max(each):z.2f} |"
        for name, each in results("embedders")["streams"].items()
    ]
    header = "| coordinates of B | lowest | mean | highest |\n"
    check_part(DOCS / "worth.md", header + "|---|---|---|---|\n", "\n\n", "\n".join(lines))
