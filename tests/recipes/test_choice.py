"""The method of a run that names none: what is taken, why, and that the run can be done again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from helpers.random_models import byte_llama, config_of, random_model
from onebasin import automatic
from onebasin.automatic import MODEST, QUICK, quick
from onebasin.errors import BadRecipe
from onebasin.learn import LearnedMatching
from onebasin.match import ActivationMatching, WeightMatching
from onebasin.recipes import parse, prepare
from onebasin.recipes.choice import NAMES, decided
from onebasin.recipes.recipe import USED

DATA = {"data": "builtin:python", "samples": 8, "length": 8}
TASK = ("--task", "builtin:python", "--samples", "8", "--length", "8")
MADE_UP = ("--task", "synthetic", "--samples", "20", "--length", "8")
LEAST = {"onebasin": 1, "verb": "align", "models": ["a", "b"]}


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("pair")
    return byte_llama(root / "a"), byte_llama(root / "b", 1)


@pytest.fixture(scope="module")
def headless(tmp_path_factory) -> list[Path]:
    root, config = tmp_path_factory.mktemp("headless"), config_of("gpt2", 2)
    config.vocab_size = 257
    config.n_positions = 16
    for i in (0, 1):
        random_model("GPT2Model", config, i).save_pretrained(root / str(i))
    return [root / "0", root / "1"]


@pytest.fixture(autouse=True)
def short(monkeypatch) -> None:
    monkeypatch.setattr(automatic, "MODEST", replace(MODEST, steps=2, batch=4, eval_every=1))
    monkeypatch.setattr(automatic, "TEXTS", 20)


def written(folder: Path) -> tuple[dict, dict]:
    certificate = json.loads((folder / "certificate.json").read_text())
    return certificate, yaml.safe_load((folder / "recipe.yaml").read_text())


@pytest.mark.parametrize("flags", [(), TASK], ids=["no data", "task"])
def test_models_that_predict_get_auto_and_the_recipe_names_it(cli, pair, tmp_path, flags):
    code, out, err = cli("merge", *pair, "-o", tmp_path / "one", "--device", "cpu", *flags)
    assert code == 0, err
    assert err.startswith("onebasin: method auto: none was named")
    assert "--method weight" in err
    certificate, recipe = written(tmp_path / "one")
    assert certificate["method"] == recipe["method"] == "auto"
    assert certificate["because"] in err
    assert ("no task was given" in out) == (not flags)
    assert certificate["learning"]["options"]["loss"] == ("task" if flags else "agreement")
    assert recipe["learn"]["steps"] == 2
    code, _, err = cli("run", tmp_path / "one" / "recipe.yaml", "-o", tmp_path / "two")
    assert (code, err) == (0, "")  # nothing is left to decide
    assert (tmp_path / "one" / "recipe.yaml").read_text() == (tmp_path / "two" / "recipe.yaml").read_text()
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert all(one[name].equal(two[name]) for name in one)


@pytest.mark.parametrize(("flags", "method"), [((), "weight"), (MADE_UP, "activation")], ids=["no data", "task"])
def test_models_without_a_head_are_matched(cli, headless, tmp_path, flags, method):
    code, _, err = cli("align", *headless, "-o", tmp_path / "out", "--device", "cpu", *flags)
    assert code == 0, err
    assert f"method {method}: none was named, and GPT2Model has no head to learn from" in err
    certificate, recipe = written(tmp_path / "out")
    assert certificate["method"] == recipe["method"] == method
    assert recipe["matching" if method == "weight" else "activation"]


def test_a_plan_says_which_and_why_and_quiet_is_quiet(cli, pair, tmp_path):
    code, out, _ = cli("align", *pair, "-o", tmp_path / "out", "--dry-run")
    assert code == 0
    assert "method auto" in out
    assert "none was named" in out
    code, out, err = cli("align", *pair, "-o", tmp_path / "out", "--quiet", "--device", "cpu")
    assert (code, err) == (0, "")
    code, out, _ = cli("align", *pair, "-o", tmp_path / "other", "--dry-run", "--method", "weight")
    assert "none was named" not in out


SECTIONS = {"start": "weight", "matching": {"sweeps": 3}, "activation": {}, "learn": {"steps": 5}}


@pytest.mark.parametrize("section", NAMES)
def test_a_section_names_its_method(section):
    recipe = parse({**LEAST, section: SECTIONS[section], **({"task": DATA} if section != "matching" else {})})
    assert recipe.method == NAMES[section]
    assert section in USED[NAMES[section]]
    assert getattr(recipe, section) is not None


def test_sections_that_contradict_each_other_are_refused():
    with pytest.raises(BadRecipe, match="activation is of no use to the method weight"):
        parse({**LEAST, "matching": {}, "activation": {}})
    with pytest.raises(BadRecipe, match="task is of no use to the method weight"):
        parse({**LEAST, "matching": {}, "task": DATA})
    with pytest.raises(BadRecipe, match="inputs for the method learned"):
        parse({**LEAST, "start": "weight"})
    assert parse({**LEAST, "start": "weight", "matching": {}, "task": DATA}).method == "learned"
    assert parse({**LEAST, "matching": {}, "method": "weight"}).method == "weight"


def test_a_universe_is_gone_on_with_by_weights():
    assert parse({**LEAST, "universe": {"folder": "x"}}).method == "weight"
    assert parse({**LEAST, "universe": {"folder": "x"}, "start": "weight", "task": DATA}).method == "learned"
    assert parse({**LEAST, "models": ["a", "b", "c"]}).method is None


def test_a_method_that_is_named_is_left_alone(pair):
    models = [str(folder) for folder in pair]
    recipe = parse({**LEAST, "models": models, "method": "weight", "write": {"out": "nowhere"}})
    plan = prepare(recipe)
    assert (plan.recipe, plan.because) == (recipe, None)


def test_learning_is_smaller_on_a_cpu(pair, monkeypatch):
    monkeypatch.undo()
    assert quick("cuda") == QUICK
    assert quick(torch.device("cpu")) == MODEST
    assert MODEST.steps * MODEST.batch < QUICK.steps * QUICK.batch
    assert replace(MODEST, steps=QUICK.steps, batch=QUICK.batch) == QUICK
    given = parse({**LEAST, "method": "auto", "device": "cpu", "learn": {"steps": 7}}).learn
    assert given == replace(MODEST, steps=7)
    assert given != replace(LearnedMatching(), steps=7)


def test_the_defaults_are_those_of_the_method(headless, pair):
    from onebasin import Checkpoint

    spec, predicts = (Checkpoint.open(folder).spec for folder in (headless[0], pair[0]))
    recipe, device = parse(LEAST), torch.device("cpu")
    assert decided(recipe, spec, device)[0].matching == WeightMatching()
    assert decided(parse({**LEAST, "task": DATA}), spec, device)[0].activation == ActivationMatching()
    assert decided(recipe, predicts, device)[0].learn == quick(device)
