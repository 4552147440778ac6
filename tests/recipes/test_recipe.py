"""The recipe of each verb: what keys are suggested, and that words and defaults are those of the code."""

from __future__ import annotations

from typing import get_args

import pytest
import typer

from helpers.recipe_texts import LEAST
from onebasin.checkpoint import DTYPES
from onebasin.cli.app import app
from onebasin.errors import BadRecipe, OnebasinError
from onebasin.healing.options import Healing
from onebasin.methods.registry import methods, names
from onebasin.paths import path_between
from onebasin.recipes import parse
from onebasin.recipes.recipe import Dtype


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("weight.sweps", "weight.sweeps"), ("sweeps", "weight.sweeps"), ("modls", "models"), ("outt", "write.out"),
        ("weight.guards", "weight.paper.guard"), ("universe.round", "universe.rounds"), ("wieght", "weight"),
        ("weigth.sweeps", "weight"), ("assign_ever", "learned.paper.assign_every"), ("methd", "method"),
    ],
)  # fmt: skip
def test_the_nearest_key_is_suggested(key, meant):
    with pytest.raises(BadRecipe, match=rf"did you mean {meant}\?"):
        parse(LEAST["align"], [f"{key}=1"])


@pytest.mark.parametrize("key", ["weight.sweps", "activation.sweps", "learned.sweps", "auto.sweps", "universe.sweps"])
def test_an_unknown_key_of_any_section_is_refused(key):
    section = key.partition(".")[0]
    method = {} if section == "universe" else {"method": section, "task": {"data": "builtin:python"}}
    with pytest.raises(BadRecipe, match=f"{key} is not a key of this recipe"):
        parse({**LEAST["align"], **method}, [f"{key}=1"])


def test_the_choices_are_those_of_the_code():
    """The schema's lists of words are the lists of the layers above."""
    assert get_args(Dtype) == tuple(dtype.name for dtype in DTYPES.values() if dtype.is_float)
    with pytest.raises(BadRecipe, match="method has no such choice") as refused:
        parse({**LEAST["align"], "method": "nonsense"})
    assert str(refused.value.expected).split(", ") == list(names())
    with pytest.raises(BadRecipe, match=r"learned\.start has no such choice") as refused:
        parse({**LEAST["align"], "method": "learned", "learned": {"start": "nonsense"}})
    starts = {name for name, kind in methods().items() if not kind.learns}
    assert set(str(refused.value.expected).split(", ")) == {*starts, "identity"} > {"weight", "activation"}
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
        places = (recipe, recipe.task, recipe.write, getattr(recipe, "method", None))
        for option in commands[verb].params:
            if isinstance(option.show_default, str) and option.name not in ("method", "heal_rate", "heal_compare"):
                (default,) = [getattr(x, option.name) for x in places if hasattr(x, option.name)]
                assert option.show_default == (default.name if option.name == "start" else str(default)), verb
                checked.add(option.name)
    shown = {option.name: option.show_default for option in commands["merge"].params}
    assert (float(shown["heal_rate"]), shown["heal_compare"]) == (Healing(1).lr, "heal-compare")
    assert Healing(1).compare
    assert checked == {"start", "steps", "device", "max_shard_size", "share", "path", "points", "batch_size"}
