"""Sections of a recipe are dataclasses, and refuse everything they do not know."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

import pytest
import typer
import yaml
from hypothesis import given
from hypothesis import strategies as st

from helpers.recipe_texts import LEAST
from onebasin.aligning import METHODS
from onebasin.checkpoint import DTYPES
from onebasin.cli.app import app
from onebasin.errors import BadRecipe, OnebasinError
from onebasin.landscape import path_between
from onebasin.recipes import Align, parse, sections
from onebasin.recipes import recipe as kinds
from onebasin.options import read_section, write_section


@dataclass(frozen=True)
class Inner:
    name: str
    share: float = 0.5


@dataclass(frozen=True)
class Everything:
    """Every kind of annotation that a section may have."""

    inner: Inner
    both: tuple[Inner, Inner]
    words: tuple[str, ...] = ()
    kind: Literal["one", "two"] = "one"
    count: int | None = 7
    flag: bool = True
    rate: float = 1e-5
    mixed: int | str = 3

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise OnebasinError("a rate is positive", expected="0 or more", found=self.rate, next_step="turn it round")


WORDS = st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), max_size=5)  # YAML folds odd line breaks
inners = st.builds(Inner, WORDS, st.floats(allow_nan=False))
everythings = st.builds(
    Everything, inners, st.tuples(inners, inners), st.lists(WORDS, max_size=3).map(tuple),
    st.sampled_from(["one", "two"]), st.none() | st.integers(), st.booleans(),
    st.floats(min_value=0, allow_nan=False), st.integers() | WORDS,
)  # fmt: skip


@given(everythings)
def test_a_section_is_read_as_it_was_written(value):
    text = yaml.safe_dump(write_section(value), allow_unicode=True)
    assert read_section(Everything, yaml.safe_load(text)) == value


GOOD = {"inner": {"name": "x"}, "both": [{"name": "y"}, {"name": "z", "share": 1}]}


@pytest.mark.parametrize(
    ("change", "path", "expected", "found"),
    [
        ({"inner": {"nam": "x"}}, "inner.nam is not a key", "name, share", "inner.nam"),
        ({"inner": {}}, "inner.name is missing", "text", "an empty section"),
        ({"inner": "x"}, "inner has the wrong type", "a section", "'x' (str)"),
        ({"inner": {"name": 3}}, "inner.name has the wrong type", "text", "3 (int)"),
        ({"inner": {"name": "x", "share": "half"}}, "inner.share has the wrong type", "a number", "'half'"),
        ({"inner": {"name": "x", "share": True}}, "inner.share has the wrong type", "a number", "True (bool)"),
        ({"both": [{"name": "x"}]}, "both has the wrong type", "2 entries", "1 entries"),
        ({"both": [{"name": "x"}, {"name": 1}]}, "both.1.name has the wrong type", "text", "1 (int)"),
        ({"words": "x"}, "words has the wrong type", "a list of text", "'x' (str)"),
        ({"words": [1]}, "words.0 has the wrong type", "text", "1 (int)"),
        ({"kind": "tow"}, "kind has no such choice", "one, two", "tow"),
        ({"kind": None}, "kind has no such choice", "one, two", None),
        ({"count": 1.0}, "count has the wrong type", "a whole number", "1.0 (float)"),
        ({"count": False}, "count has the wrong type", "a whole number", "False (bool)"),
        ({"flag": 1}, "flag has the wrong type", "true or false", "1 (int)"),
        ({"flag": None}, "flag has the wrong type", "true or false", "nothing (null)"),
        ({"mixed": 0.5}, "mixed has the wrong type", "a whole number or text", "0.5 (float)"),
        ({"rate": -1}, "here: a rate is positive", "0 or more", "-1.0"),
        ({3: 1}, "3 is not a key", "inner, both", "3"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_path(change, path, expected, found):
    read_section(Everything, GOOD, "here")
    with pytest.raises(BadRecipe) as refused:
        read_section(Everything, {**GOOD, **change}, "here")
    error = refused.value
    assert error.what.startswith((f"here.{path}", path))
    assert expected in str(error.expected)
    assert found is None or found in str(error.found)
    assert error.next_step


def test_a_number_may_be_written_without_a_point():
    """YAML 1.1 reads 1e-5 as text and 1.0e-5 as a number."""
    assert yaml.safe_load("1e-5") == "1e-5"
    assert read_section(Inner, yaml.safe_load("{name: x, share: 1e-5}")).share == 1e-5
    assert read_section(Inner, {"name": "x", "share": 2}).share == 2.0


@pytest.mark.parametrize(
    ("key", "meant"),
    [("matching.sweps", "matching.sweeps"), ("sweeps", "matching.sweeps"), ("modls", "models"), ("outt", "write.out")],
)
def test_the_nearest_key_is_suggested(key, meant):
    with pytest.raises(BadRecipe, match=rf"did you mean {meant}\?"):
        parse(LEAST["align"], [f"{key}=1"])


def test_the_choices_are_those_of_the_code():
    """The schema's lists of words are the lists of the layers above."""
    assert get_args(sections.Dtype) == tuple(dtype.name for dtype in DTYPES.values() if dtype.is_float)
    assert {field.name for field in fields(Align)} >= {"method"}
    assert set(get_args(kinds.Method)) == set(kinds.USED) > set(METHODS)
    assert set(get_args(kinds.Start)) == {*METHODS, "identity"}
    with pytest.raises(OnebasinError) as refused:
        path_between("scenic", None, None)
    assert str(refused.value.expected) == "factor, circuit"


def test_the_help_shows_the_defaults_of_the_recipe():
    """Flags have no defaults of their own; what the help shows must be what the recipe takes."""
    commands = typer.main.get_command(app).commands
    learned = {"method": "learned", "task": {"data": "builtin:python"}}
    least = {"align": {**LEAST["align"], **learned}, "merge": {**LEAST["merge"], **learned},
             "barrier": {**LEAST["barrier"], "task": {"data": "builtin:python"}}}  # fmt: skip
    checked = set()
    for verb, document in least.items():
        recipe = parse(document)
        places = (recipe, recipe.task, recipe.write, getattr(recipe, "learn", None))
        for option in commands[verb].params:
            if isinstance(option.show_default, str) and option.name != "method":
                (default,) = {getattr(x, option.name) for x in places if hasattr(x, option.name)}
                assert option.show_default == str(default), (verb, option.name)
                checked.add(option.name)
    assert checked == {"start", "steps", "device", "max_shard_size", "weight", "path", "points", "batch_size"}
