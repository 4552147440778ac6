"""docs/recipe-keys.md: every key of a recipe, with its type and default, made from the records that read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import pytest

from helpers.pages import DOCS, check_page
from onebasin.healing.options import Healing
from onebasin.match.options import Gathering
from onebasin.match.room import Memory
from onebasin.methods.registry import methods
from onebasin.options import Options, described, hints_of, known_keys
from onebasin.papers.options import PaperLearning, PaperMatching
from onebasin.recipes import recipe

INTRODUCTION = """# Keys of a recipe

Everything that `onebasin run` reads, with its type and default; `--set KEY=VALUE` sets any of it. What the options of
methods do: [matching](matching.md), [learning](learning-options.md), [the papers' variants](papers.md).

"""
RECORDS = (
    recipe.Align, recipe.Merge, recipe.Barrier, recipe.Model, recipe.Task, recipe.Write, recipe.WriteAligned, Healing,
    Memory, Gathering, *methods().values(), PaperMatching, PaperLearning,
)  # fmt: skip
BASES = {
    "Options",
    "Aligning",
    "Folder",
    "Families",
    "Method",
    "WeightMatching",
    "ActivationMatching",
    "LearnedMatching",
}


def shown(value: Any) -> str:
    if value is MISSING:
        return "required"
    if is_dataclass(value):
        return f"a {type(value).__name__}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value))
    return "nothing" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def rows(kind: type) -> Iterator[str]:
    of = {field.name: field for field in fields(kind)}
    for name in known_keys(kind):
        field = of[name]
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        told = "a name, and a section of that name" if name == "method" else described(hints_of(kind)[name])
        yield f"| `{name}` | {told} | {shown(default)} |"


def section(kind: type) -> str:
    about = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    return "\n".join(
        [f"## {kind.__name__}", "", about, "", "| key | type | default |", "|---|---|---|", *rows(kind), ""]
    )


@pytest.mark.page
def test_the_page_lists_every_key():
    check_page(DOCS / "recipe-keys.md", INTRODUCTION + "\n".join(map(section, RECORDS)))


def test_no_record_is_left_out():
    def below(kind: type) -> set[type]:
        return {kind, *(x for one in kind.__subclasses__() for x in below(one))}

    ours = {x.__name__ for x in below(Options) if x.__module__.startswith("onebasin.")}
    assert ours - BASES == {x.__name__ for x in RECORDS}
