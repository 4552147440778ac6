"""The method of a run that names none: what is taken, why, and that the run can be done again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from helpers.random_models import byte_llama, config_of, random_folder, random_model
from onebasin import Checkpoint, canonicalize
from onebasin.errors import BadRecipe
from onebasin.methods import auto
from onebasin.methods.activation import Activation
from onebasin.methods.auto import FREE, MODEST, QUICK, Auto
from onebasin.methods.learned import Learned
from onebasin.methods.registry import default_method, methods, named_by, read_method
from onebasin.methods.weight import Weight
from onebasin.recipes import parse, prepare

DATA = {"data": "builtin:python", "samples": 8, "length": 8}
TASK = ("--task", "builtin:python", "--samples", "8", "--length", "8")
MADE_UP = ("--task", "synthetic", "--samples", "20", "--length", "8")
CPU = torch.device("cpu")
LEAST = {"onebasin": 2, "verb": "align", "models": ["a", "b"]}


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
    monkeypatch.setattr(auto, "MODEST", {**MODEST, "steps": 2, "batch": 4, "eval_every": 1})
    monkeypatch.setattr(auto, "TEXTS", 20)


def written(folder: Path) -> tuple[dict, dict]:
    certificate = json.loads((folder / "certificate.json").read_text())
    return certificate, yaml.safe_load((folder / "recipe.yaml").read_text())


@pytest.mark.parametrize("flags", [(), TASK], ids=["no data", "task"])
def test_models_that_predict_get_auto_and_the_recipe_names_it(cli, pair, tmp_path, flags):
    code, out, err = cli("merge", *pair, "-o", tmp_path / "one", "--device", "cpu", *flags)
    assert code == 0, err
    assert err.startswith("onebasin: No --method given: using auto (minutes on a CPU).")
    assert "--method weight" in err
    certificate, recipe = written(tmp_path / "one")
    assert certificate["method"] == recipe["method"] == "auto"
    assert certificate["because"] in err
    assert ("the models made up 20 inputs" in out) == (not flags)
    assert certificate["learning"]["options"]["loss"] == ("task" if flags else "agreement")
    assert recipe["learned"]["steps"] == 2
    code, _, err = cli("run", tmp_path / "one" / "recipe.yaml", "-o", tmp_path / "two")
    assert code == 0
    assert "onebasin: " not in err  # nothing is left to decide
    assert (tmp_path / "one" / "recipe.yaml").read_text() == (tmp_path / "two" / "recipe.yaml").read_text()
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert all(one[name].equal(two[name]) for name in one)


@pytest.mark.parametrize(("flags", "method"), [((), "weight"), (MADE_UP, "activation")], ids=["no data", "task"])
def test_models_without_a_head_are_matched(cli, headless, tmp_path, flags, method):
    code, _, err = cli("align", *headless, "-o", tmp_path / "out", "--device", "cpu", *flags)
    assert code == 0, err
    assert f"No --method given: using {method}, for GPT2Model has no head; --method auto learns" in err
    certificate, recipe = written(tmp_path / "out")
    assert certificate["method"] == recipe["method"] == method
    assert recipe[method]


def test_a_plan_says_which_and_why_and_quiet_is_quiet(cli, pair, tmp_path):
    code, out, _ = cli("align", *pair, "-o", tmp_path / "out", "--dry-run")
    assert code == 0
    assert "method auto" in out
    assert "No --method given" in out
    code, out, err = cli("align", *pair, "-o", tmp_path / "out", "--quiet", "--device", "cpu")
    assert (code, err) == (0, "")
    code, out, _ = cli("align", *pair, "-o", tmp_path / "other", "--dry-run", "--method", "weight")
    assert "No --method given" not in out


NAMED = [  # sections, the method they name
    ({"weight": {"sweeps": 3}}, "weight"),
    ({"activation": {}, "task": DATA}, "activation"),
    ({"learned": {"steps": 5}, "task": DATA}, "auto"),
    ({"learned": {"start": "weight"}, "task": DATA}, "learned"),
    ({"learned": {"start": "weight"}, "weight": {}, "task": DATA}, "learned"),
    ({"auto": {}}, "auto"),
]


@pytest.mark.parametrize(("sections", "method"), NAMED)
def test_a_section_names_its_method(sections, method):
    assert named_by({name: section for name, section in sections.items() if name in methods()}) == method
    assert parse({**LEAST, **sections}).method.name == method
    assert parse({**LEAST, **sections, "method": method}).method == parse({**LEAST, **sections}).method
    assert named_by({}) is None


def test_sections_that_contradict_each_other_are_refused():
    with pytest.raises(BadRecipe, match="method is missing") as refused:  # it could be either of the two, or auto
        parse({**LEAST, "weight": {}, "activation": {}})
    assert refused.value.found == "activation, weight"
    with pytest.raises(BadRecipe, match="activation is of no use to the method weight"):
        parse({**LEAST, "method": "weight", "activation": {}})
    with pytest.raises(BadRecipe, match="task is of no use to the method weight"):
        parse({**LEAST, "weight": {}, "task": DATA})
    with pytest.raises(BadRecipe, match="inputs for the method learned"):
        parse({**LEAST, "learned": {"start": "weight"}})
    assert parse({**LEAST, "weight": {}, "method": "weight"}).method == Weight()
    both = parse(
        {**LEAST, "method": "auto", "device": "cpu", "weight": {"sweeps": 3}, "activation": {"inside": "none"}}
    )
    assert (both.method.weight, both.method.activation) == (Weight(sweeps=3), Activation(inside="none"))


def test_a_universe_is_gone_on_with_by_weights():
    universe = {"universe": {"folder": "x"}}
    assert parse({**LEAST, **universe}).method == Weight()
    for start in ("weight", "activation"):
        found = parse({**LEAST, **universe, "learned": {"start": start}, "task": DATA}).method
        assert (found.name, found.start.name) == ("learned", start)
    assert parse({**LEAST, **universe, "activation": {}, "task": DATA}).method == Activation()
    assert parse({**LEAST, "models": ["a", "b", "c"]}).method is None


def test_a_method_that_is_named_is_left_alone(pair):
    models = [str(folder) for folder in pair]
    recipe = parse({**LEAST, "models": models, "method": "weight", "write": {"out": "nowhere"}})
    plan = prepare(recipe)
    assert (plan.recipe, plan.because) == (recipe, None)


def filled(device: str) -> Learned:
    return read_method("auto", {}, torch.device(device)).learned


def test_learning_is_smaller_on_a_cpu(monkeypatch):
    monkeypatch.undo()
    assert filled("cuda") == Learned(start=None, **QUICK)
    assert filled("cpu") == Learned(start=None, **MODEST) == Auto().learned
    small, large = filled("cpu"), filled("cuda")
    assert small.steps * small.batch < large.steps * large.batch
    assert replace(small, steps=large.steps, batch=large.batch) == large
    given = parse({**LEAST, "method": "auto", "device": "cpu", "learned": {"steps": 7}}).method.learned
    assert given == replace(small, steps=7)
    assert given != Learned(start=None, steps=7)


@pytest.mark.parametrize(
    ("model", "data", "expected"),
    [("headless", False, Weight()), ("headless", True, Activation()), ("pair", False, Auto), ("pair", True, Auto)],
)
def test_the_defaults_are_those_of_the_method(request, model, data, expected):
    spec, device = Checkpoint.open(request.getfixturevalue(model)[0]).spec, torch.device("cpu")
    name, because = default_method(spec, task=data)
    found = read_method(name, {}, device)
    assert found == (expected if isinstance(expected, Weight | Activation) else Auto(learned=filled("cpu")))
    assert because.startswith(f"No --method given: using {name}")


def test_a_merge_has_more_that_learns(pair):
    """What `align` writes must go with A as it is; an average need not.  Who says what learns is not talked over."""
    free = read_method("auto", {}, CPU, merges=True).learned
    assert free == replace(filled("cpu"), **FREE) != filled("cpu")
    models = {"models": [str(folder) for folder in pair], "method": "auto", "device": "cpu"}
    verbs = {verb: parse({**LEAST, "verb": verb, **models}).method.learned for verb in ("align", "merge")}
    assert verbs == {"align": filled("cpu"), "merge": free}
    assert parse({**LEAST, "verb": "merge", **models, "learned": {"steps": 7}}).method.learned == replace(free, steps=7)
    for given in ({"learn": ["qk"]}, {"two_sided": False}, {"optimizer": "adamw"}, {"path": "circuit"}, {"paper": {}}):
        either = [read_method("auto", {"learned": dict(given)}, CPU, merges=merges) for merges in (False, True)]
        assert either[0] == either[1]


def test_it_is_for_models_that_write_text_and_what_they_have(tmp_path):
    method = read_method("auto", {"learned": {"steps": 7}}, CPU, merges=True)
    usual = read_method("auto", {"learned": {"steps": 7}}, CPU)
    without = replace(method.learned, learn=("residual", "qk", "ov", "shares"))
    kinds = {
        ("llama", "LlamaForCausalLM"): method, ("olmo", "OlmoForCausalLM"): replace(method, learned=without),
        ("vit", "ViTForImageClassification"): usual, ("bert", "BertForMaskedLM"): usual,
    }  # fmt: skip
    for (model_type, name), expected in kinds.items():
        form = canonicalize(Checkpoint.open(random_folder(tmp_path / name, model_type, name, 0))).checkpoint
        assert method.suited(form) == expected
        assert usual.suited(form) == usual
