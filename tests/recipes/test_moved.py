"""Recipes of the release before: each is refused with what to write instead, and that is something one can write."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from helpers.recipe_texts import LEAST, TASK
from onebasin.errors import BadRecipe
from onebasin.methods.learned import Learned
from onebasin.methods.weight import Weight
from onebasin.options import all_keys
from onebasin.recipes import load, parse, plain
from onebasin.recipes.document import put
from onebasin.recipes.moved import MOVED, SECTIONS
from onebasin.recipes.recipe import Merge

OLD = """
onebasin: 1
verb: merge
models: [a, b]
method: learned
start: weight
matching: {sweeps: 15, tol: 1.0e-05, guard: false, weighting: raw, unit_cost: cosine}
learn:
  learn: [residual, qk, scale]
  turns: alternate
  law: half
  optimizer: adam
  schedule: constant
  compile: max-autotune
  steps: 100
weight: 0.4
task: {data: 'builtin:python'}
"""
REPLACED = {
    "onebasin: 1": "onebasin: 2",
    "start": "learned.start",
    "matching": "weight",
    "matching.guard": "weight.paper.guard",
    "matching.weighting": "weight.paper.weighting",
    "matching.unit_cost": "weight.paper.unit_cost",
    "learn": "learned",
    "learn.learn: scale": "learned.paper.scale=true",
    "learn.turns": "nothing: all latents move together",
    "learn.law=half": "learned.paper.law=half",
    "learn.optimizer=adam": "learned.optimizer=adamw",
    "learn.schedule": "nothing: the rate falls by a half cosine",
    "learn.compile=max-autotune": "learned.compile=auto",
    "weight": "share",
}
NEW = """
onebasin: 2
verb: merge
models: [a, b]
method: learned
weight: {sweeps: 15, tol: 1.0e-05, paper: {guard: false, weighting: raw, unit_cost: inner}}
learned:
  start: weight
  learn: [residual, qk]
  optimizer: adamw
  compile: auto
  steps: 100
  paper: {law: half, scale: true}
share: 0.4
task: {data: 'builtin:python'}
"""


def refusal(document: dict[str, Any], *settings: str) -> BadRecipe:
    with pytest.raises(BadRecipe, match="The recipe is of an earlier release") as refused:
        parse(document, settings)
    return refused.value


def test_an_old_recipe_is_refused_with_every_replacement(tmp_path):
    (tmp_path / "r.yaml").write_text(OLD)
    with pytest.raises(BadRecipe, match="The recipe is of an earlier release") as refused:
        load(tmp_path / "r.yaml")
    changes = [f"{old} is now {new}" for old, new in REPLACED.items()]
    assert sorted(str(refused.value.next_step).split("; ")) == sorted(changes)
    assert "onebasin: 2" in str(refused.value.expected)
    (tmp_path / "r.yaml").write_text(NEW)  # every change made
    found = load(tmp_path / "r.yaml")
    assert (found.share, found.method.name, found.method.start.name) == (0.4, "learned", "weight")


@pytest.mark.parametrize("verb", LEAST)
def test_an_old_number_alone_is_named(verb):
    error = refusal({**LEAST[verb], "onebasin": 1})
    assert error.next_step == "onebasin: 1 is now onebasin: 2"


def spellings(key: str) -> list[str]:
    """The setting as it was written, and with the section by its new name."""
    section, dot, rest = key.partition(".")
    old = {new: old for old, new in SECTIONS.items()}
    named = [section, *([old[section]] if dot and section in old else [])]
    return [f"{name}{dot}{rest}" + ("" if "=" in key else "=1") for name in named]


@pytest.mark.parametrize("key", MOVED)
@pytest.mark.parametrize("number", [1, 2])
def test_every_key_that_moved_is_refused_with_what_to_write(key, number):
    for setting in spellings(key):
        error = refusal({**LEAST["merge"], "onebasin": number}, setting)
        written = setting if "=" in key else setting.removesuffix("=1")
        assert f"{written} is now {MOVED[key]}" in str(error.next_step)
        assert written in str(error.found)
        assert ("onebasin: 1 is now onebasin: 2" in str(error.next_step)) == (number == 1)


@pytest.mark.parametrize("new", [*MOVED.values(), "share", "learned.paper.scale=true"])
def test_what_to_write_exists(new):
    known = {key for name, kind in {"weight": Weight, "learned": Learned}.items()
             for key in (f"{name}.{inner}" for inner in all_keys(kind))} | set(all_keys(Merge))  # fmt: skip
    before, _, reason = new.partition("nothing: ")
    words = [word.strip(",;") for word in (reason if not before else new).split()]
    settings = [word for word in words if "." in word or not before + reason]
    assert before or reason
    for setting in settings or ([] if reason else [new]):
        assert setting.partition("=")[0] in known
        if "=" in setting:
            parse({**LEAST["merge"], "method": "learned", "task": TASK}, [setting])


@pytest.mark.parametrize("value", [0.4, 1, 0])
def test_a_share_that_was_called_weight(value):
    assert "weight is now share" in str(refusal({**LEAST["merge"], "weight": value}).next_step)
    assert parse({**LEAST["merge"], "weight": {"sweeps": 2}}).method == Weight(sweeps=2)  # the section of the method


@pytest.mark.parametrize("verb", ["align", "merge"])
@pytest.mark.parametrize("method", ["weight", "activation", "learned", "dual", "soft", "auto"])
def test_recipes_that_are_written_now_are_not_old(tmp_path, verb, method):
    document = {**LEAST[verb], "method": method, **({} if method == "weight" else {"task": TASK})}
    written = yaml.safe_load(yaml.safe_dump(plain(parse(document), tmp_path)))
    assert parse(written, base=tmp_path) == parse(document, base=tmp_path)
    put(written, "learned.turns=together")  # the control
    refusal(written)


def test_the_command_line_refuses_old_keys(cli, tmp_path):
    code, out, err = cli("align", "a", "b", "-o", tmp_path / "out", "--set", "matching.guard=false")
    assert (code, out) == (2, "")
    assert "matching is now weight; matching.guard is now weight.paper.guard" in err
