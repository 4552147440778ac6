"""Recipes as documents: what is read, filled in, refused and written."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import torch
import yaml

from helpers.recipe_texts import LEAST, TASK
from onebasin.errors import BadRecipe
from onebasin.methods.registry import read_method
from onebasin.methods.weight import Weight
from onebasin.papers.options import PRESETS
from onebasin.recipes import VERBS, load, parse, plain


@pytest.mark.parametrize("verb", VERBS)
def test_a_recipe_survives_being_written(verb, tmp_path):
    first = parse(LEAST[verb], base=tmp_path)
    document = plain(first, tmp_path)
    assert parse(yaml.safe_load(yaml.safe_dump(document)), base=tmp_path) == first
    assert plain(parse(document, base=tmp_path), tmp_path) == document
    assert "method" not in document  # decided when the models are known
    if verb != "barrier":
        document = plain(parse({**LEAST[verb], "method": "weight"}), tmp_path)
        assert set(document["weight"]) == {field.name for field in fields(Weight)}  # defaults written out


@pytest.mark.parametrize(
    ("verb", "change", "says"),
    [
        ("align", {"onebasin": 3}, ["onebasin has no such choice", "expected: 2", "found: 3"]),
        ("align", {"onebasin": None}, ["onebasin has no such choice"]),
        ("align", {"verb": "mrege"}, ["verb has no such choice", "align, merge, barrier", "did you mean merge?"]),
        ("align", {"share": 0.5}, ["share is not a key of this recipe"]),
        ("align", {"method": "weight", "task": TASK}, ["task is of no use to the method weight"]),
        ("align", {"method": "activation"}, ["task is missing", "inputs for the method activation"]),
        ("align", {"method": "activation", "task": TASK, "weight": {"sweeps": 2}}, ["weight is of no use"]),
        ("align", {"models": ["a"]}, ["it takes two models or more", "found: a"]),
        ("align", {"models": "a"}, ["models has the wrong type", "found: 'a' (str)"]),
        ("align", {"models": ["a", {"path": "b", "tag": "x"}]}, ["models.1.tag is not a key", "path, revision"]),
        ("align", {"write": {"mergekit": "yes please"}}, ["write.mergekit has the wrong type", "true or false"]),
        ("merge", {"write": {"mergekit": True}}, ["write.mergekit is not a key"]),
        ("merge", {"share": 1.5}, ["share is out of range", "expected: from 0 to 1", "found: 1.5"]),
        ("merge", {"write": {"dtype": "float8"}}, ["write.dtype has no such choice", "float32", "found: float8"]),
        ("barrier", {"points": 1}, ["points is out of range", "expected: from 2 to 1000"]),
        ("barrier", {"method": "weight"}, ["method is not a key"]),
        ("barrier", {"task": {**TASK, "batch_size": 0}}, ["task.batch_size is out of range"]),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(verb, change, says):
    parse(LEAST[verb])
    with pytest.raises(BadRecipe) as refused:
        parse({**LEAST[verb], **change})
    assert [piece for piece in (*says, "next step:") if piece not in str(refused.value)] == []


@pytest.mark.parametrize("key", ["onebasin", "verb", "models"])
def test_what_is_missing_is_named(key):
    with pytest.raises(BadRecipe, match=f"{key} is missing"):
        parse({name: value for name, value in LEAST["align"].items() if name != key})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("onebasin: 2\nonebasin: 2\nverb: align\nmodels: [a, b]", "onebasin is given twice"),
        ("verb: [", "is not valid YAML"),
        ("- align", "A recipe is keys with values"),
        ("", "A recipe is keys with values"),
        ("!!python/object/apply:os.getcwd []", "is not valid YAML"),
        ("{a: 1}: 2", "is not valid YAML"),
    ],
)
def test_files_that_are_no_recipes(tmp_path, text, says):
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(BadRecipe, match="next step") as refused:
        load(tmp_path / "r.yaml")
    assert says in str(refused.value)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(BadRecipe, match="cannot be read"):
        load(tmp_path / "absent.yaml")
    (tmp_path / "r.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadRecipe, match="is not valid YAML"):
        load(tmp_path / "r.yaml")


def test_settings_are_keys_of_the_recipe():
    settings = ["weight.sweeps=5", "weight.tol=1e-3", "write.dtype=bfloat16", "models.1.revision=v1", "device=cpu"]
    found = parse(LEAST["align"], settings)
    assert found.method == Weight(sweeps=5, tol=1e-3)
    assert (found.write.dtype, found.models[1].revision, found.device) == ("bfloat16", "v1", "cpu")
    assert parse({**LEAST["align"], "method": "weight"}).method == Weight()


@pytest.mark.parametrize("setting", ["sweeps", "=5", "weight.=5", "models.7.path=x", "verb.x=1", "device=[", ".=1"])
def test_settings_that_set_nothing(setting):
    with pytest.raises(BadRecipe):
        parse(LEAST["align"], [setting])


def test_settings_do_not_change_the_document():
    document = {**LEAST["align"], "models": ["a", {"path": "b"}], "weight": {"sweeps": 3}}
    found = parse(document, ["weight.sweeps=5", "models.1.path=c"])
    assert [model.path for model in found.models] == ["a", "c"]
    assert document == {**LEAST["align"], "models": ["a", {"path": "b"}], "weight": {"sweeps": 3}}
    assert [model.path for model in parse(document, ["models=[d, e]"]).models] == ["d", "e"]


@pytest.mark.parametrize("write", [{"out": "out"}, {}])
@pytest.mark.parametrize("data", ["text:t.txt", {"one": "text:t.txt", "two": "builtin:python"}])
def test_names_are_relative_to_the_folder_of_the_recipe(tmp_path, write, data):
    """Of models, data, universe and output; written elsewhere they are the same places by other names."""
    here, there = tmp_path / "here", tmp_path / "there"
    for name in ("a", "u"):
        (here / name).mkdir(parents=True)
    (here / "t.txt").touch()
    there.mkdir()
    document = {**LEAST["merge"], "models": ["a", "x/hub", "a"], "universe": {"folder": "u"}, "write": write,
                "method": "activation", "task": {**TASK, "data": data}}  # fmt: skip
    found = parse(document, base=here)
    assert [model.path for model in found.models] == [str(here / "a"), "x/hub", str(here / "a")]
    assert found.universe.folder == str(here / "u")
    assert found.task.data == (
        {**data, "one": f"text:{here / 't.txt'}"} if len(data) == 2 else f"text:{here / 't.txt'}"
    )
    assert found.write.out == (str(here / "out") if write else None)
    written = plain(found, there)
    assert written["models"] == ["../here/a", "x/hub", "../here/a"]
    assert written["universe"]["folder"] == "../here/u"
    assert "out" not in written["write"]
    again = parse(written, base=there)
    assert again.universe.folder == str(there / "../here/u")
    assert plain(again, here) == plain(found, here) != written


def test_presets_are_options_by_name():
    for name, preset in PRESETS.items():
        found = parse({**LEAST["align"], "weight": {"preset": name, "sweeps": 4}})
        assert found.method == read_method("weight", {"weight": {**preset, "sweeps": 4}}, torch.device("cpu"))
        assert found.method not in (Weight(), Weight(sweeps=4))
        assert "preset" not in plain(found, Path())["weight"]
    with pytest.raises(BadRecipe, match=r"weight\.preset has no such choice") as refused:
        parse({**LEAST["align"], "weight": {"preset": "p1-cdoe"}})
    assert "did you mean p1-code?" in str(refused.value)
