"""Tables of options, presets, laws and methods on the pages are those of the code."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import transformers
import yaml

from helpers.pages import DOCS, blocks, rows
from helpers.random_models import random_model
from onebasin.learn.options import LearnedMatching
from onebasin.match.options import ActivationMatching, Gathering, WeightMatching
from onebasin.methods.learned import Learned
from onebasin.methods.registry import methods, table
from onebasin.methods.weight import Weight
from onebasin.options import described, hints_of, known_keys
from onebasin.papers.options import PRESETS, PaperLearning, PaperMatching
from onebasin.papers.strategies import CHARTS, LAWS
from onebasin.paths.laws import DIRICHLET
from onebasin.paths.laws import LAWS as OUR_LAWS

HEADER = "option | type | default | what it does"


def shown(value: Any) -> str:
    """A default as the pages write it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(value)
    return "nothing" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def options(kind: type) -> list[list[str]]:
    """Name, type and default of every option."""
    made = kind()
    return [[f"`{name}`", described(hints_of(kind)[name]), shown(getattr(made, name))] for name in known_keys(kind)]


def listed(page: str, heading: str) -> list[list[str]]:
    """The table of options below a heading, with what each does; a page without that heading has none."""
    text = "\n" + (DOCS / page).read_text(encoding="utf-8")
    _, _, below = text.partition(f"\n{heading}\n")
    lines = below.partition(f"| {HEADER} |\n")[2].splitlines()[1:]
    end = next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:end]]


@pytest.mark.parametrize(
    ("page", "heading", "kind"),
    [
        ("matching.md", "## `weight`", WeightMatching),
        ("matching.md", "## `activation`", ActivationMatching),
        ("learning-options.md", "# Options of learning", LearnedMatching),
        ("papers.md", "## Weight matching", PaperMatching),
        ("papers.md", "## Learning", PaperLearning),
        ("many.md", "## Options", Gathering),
    ],
    ids=lambda x: x if isinstance(x, str) else x.__name__,
)
def test_a_page_lists_every_option_with_type_and_default(page, heading, kind):
    found = listed(page, heading)
    assert [row[:3] for row in found] == options(kind)
    assert all(row[3] for row in found)


def test_no_option_of_a_method_is_missing_from_the_pages():
    """The methods add to these records only what the pages name in words."""
    own = {kind: {field.name for field in fields(kind)} for kind in (Weight, Learned)}
    assert own[Weight] == {field.name for field in fields(WeightMatching)} | {"paper"}
    assert own[Learned] == {field.name for field in fields(LearnedMatching)} | {"paper", "start"}
    text = (DOCS / "learning-options.md").read_text(encoding="utf-8")
    assert "`start` belongs to the same section: `activation` (default), `weight` or `identity`." in text
    assert Learned().start == methods()["activation"]()


def test_laws_and_charts_on_the_pages_are_those_of_the_code():
    ours = [row[0].strip("`") for row in rows(DOCS / "learning-options.md", "law | share of B")]
    assert ours == [*OUR_LAWS, DIRICHLET]
    charts = [row[0].strip("`") for row in rows(DOCS / "papers.md", "`rotation` | the rotation")]
    assert sorted(charts) == sorted(CHARTS)
    text = (DOCS / "papers.md").read_text(encoding="utf-8")
    assert all(f"`{law}`" in text.partition("The laws:")[2].partition("\n\n")[0] for law in LAWS)


def test_the_presets_on_the_page_are_those_of_the_code():
    found = rows(DOCS / "papers.md", "preset | stands for | options")
    read = {name.strip("`"): yaml.safe_load("{" + text.strip("`") + "}") for name, _, text in found}
    assert read == PRESETS


def test_the_page_on_methods_begins_with_their_table():
    assert (DOCS / "which-method.md").read_text(encoding="utf-8").startswith(f"# Which method when\n\n{table()}\n\n")


def test_the_python_of_the_page_on_matching_moves_what_it_says(tmp_path, monkeypatch):
    config = transformers.GPT2Config(
        vocab_size=17, n_embd=8, n_layer=1, n_head=2, n_positions=8, bos_token_id=0, eos_token_id=0
    )
    for seed, name in enumerate("AB"):
        random_model("GPT2LMHeadModel", config, seed).save_pretrained(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    (snippet,) = blocks(DOCS / "matching.md", "python")
    names: dict[str, Any] = {}
    exec(compile(snippet, "matching.md", "exec"), names)
    moved = {name for name, far in names["only_attention"].alignment.displacement().items() if far > 0}
    assert {name.rpartition(".")[2] for name in moved} <= {"heads", "qk", "ov"}
    assert moved
    everywhere = {name for name, far in names["pair"].alignment.displacement().items() if far > 0}
    assert not {name.rpartition(".")[2] for name in everywhere} <= {"heads", "qk", "ov"}
