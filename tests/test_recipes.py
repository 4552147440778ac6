"""Recipes: a schema that refuses everything it does not know, and runs that can be done again."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal, get_args

import huggingface_hub
import pytest
import typer
import yaml
from hypothesis import given
from hypothesis import strategies as st
from random_models import byte_llama
from transformers import AutoModelForCausalLM

from onebasin.aligning import METHODS
from onebasin.checkpoint import DTYPES
from onebasin.cli.app import app
from onebasin.errors import BadRecipe, OnebasinError
from onebasin.landscape import path_between
from onebasin.match import PRESETS, WeightMatching
from onebasin.recipes import VERBS, Align, load, parse, plain, run, sections
from onebasin.recipes import recipe as kinds
from onebasin.recipes.schema import read_section, write_section

TASK = {"data": "builtin:python", "samples": 4, "length": 8}
LEAST = {
    "align": {"onebasin": 1, "verb": "align", "models": ["a", "b"]},
    "merge": {"onebasin": 1, "verb": "merge", "models": ["a", "b"]},
    "barrier": {"onebasin": 1, "verb": "barrier", "models": ["a", "b"], "task": TASK},
}
WEIGHT = {**LEAST["align"], "method": "weight"}


# ---- sections are dataclasses


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


# ---- documents


@pytest.mark.parametrize("verb", VERBS)
def test_a_recipe_survives_being_written(verb, tmp_path):
    first = parse(LEAST[verb], base=tmp_path)
    document = plain(first, tmp_path)
    assert parse(yaml.safe_load(yaml.safe_dump(document)), base=tmp_path) == first
    assert plain(parse(document, base=tmp_path), tmp_path) == document
    assert "method" not in document  # decided when the models are known
    if verb != "barrier":
        document = plain(parse({**LEAST[verb], "method": "weight"}), tmp_path)
        assert set(document["matching"]) == {field.name for field in fields(WeightMatching)}  # defaults written out


@pytest.mark.parametrize(
    ("verb", "change", "says"),
    [
        ("align", {"onebasin": 2}, ["onebasin has no such choice", "expected: 1", "found: 2"]),
        ("align", {"onebasin": None}, ["onebasin has no such choice"]),
        ("align", {"verb": "mrege"}, ["verb has no such choice", "align, merge, barrier", "did you mean merge?"]),
        ("align", {"weight": 0.5}, ["weight is not a key of this recipe"]),
        ("align", {"method": "weight", "task": TASK}, ["task is of no use to the method weight"]),
        ("align", {"method": "activation"}, ["task is missing", "inputs for the method activation"]),
        ("align", {"method": "activation", "task": TASK, "matching": {"sweeps": 2}}, ["matching is of no use"]),
        ("align", {"models": ["a"]}, ["it takes two models or more", "found: a"]),
        ("align", {"models": "a"}, ["models has the wrong type", "found: 'a' (str)"]),
        ("align", {"models": ["a", {"path": "b", "tag": "x"}]}, ["models.1.tag is not a key", "path, revision"]),
        ("align", {"write": {"mergekit": "yes please"}}, ["write.mergekit has the wrong type", "true or false"]),
        ("merge", {"write": {"mergekit": True}}, ["write.mergekit is not a key"]),
        ("merge", {"weight": 1.5}, ["weight is out of range", "expected: from 0 to 1", "found: 1.5"]),
        ("merge", {"write": {"dtype": "float8"}}, ["write.dtype has no such choice", "float32", "found: float8"]),
        ("barrier", {"points": 1}, ["points is out of range", "expected: 2 or more"]),
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
        ("onebasin: 1\nonebasin: 1\nverb: align\nmodels: [a, b]", "onebasin is given twice"),
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
    settings = ["matching.sweeps=5", "matching.tol=1e-3", "write.dtype=bfloat16", "models.1.revision=v1", "device=cpu"]
    found = parse(LEAST["align"], settings)
    assert found.matching == replace(WeightMatching(), sweeps=5, tol=1e-3)
    assert (found.write.dtype, found.models[1].revision, found.device) == ("bfloat16", "v1", "cpu")
    assert parse({**LEAST["align"], "method": "weight"}).matching == WeightMatching()


@pytest.mark.parametrize("setting", ["sweeps", "=5", "matching.=5", "models.7.path=x", "verb.x=1", "device=[", ".=1"])
def test_settings_that_set_nothing(setting):
    with pytest.raises(BadRecipe):
        parse(LEAST["align"], [setting])


def test_settings_do_not_change_the_document():
    document = {**LEAST["align"], "models": ["a", {"path": "b"}], "matching": {"sweeps": 3}}
    found = parse(document, ["matching.sweeps=5", "models.1.path=c"])
    assert [model.path for model in found.models] == ["a", "c"]
    assert document == {**LEAST["align"], "models": ["a", {"path": "b"}], "matching": {"sweeps": 3}}
    assert [model.path for model in parse(document, ["models=[d, e]"]).models] == ["d", "e"]


def test_presets_are_options_by_name():
    for name, preset in PRESETS.items():
        found = parse({**LEAST["align"], "matching": {"preset": name, "sweeps": 4}})
        assert found.matching == replace(preset, sweeps=4)
        assert "preset" not in plain(found, Path())["matching"]
    with pytest.raises(BadRecipe, match=r"matching\.preset has no such choice") as refused:
        parse({**LEAST["align"], "matching": {"preset": "p1-cdoe"}})
    assert "did you mean p1-code?" in str(refused.value)


# ---- names are relative to the recipe


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("pair")
    return byte_llama(root / "a"), byte_llama(root / "b", 1)


def test_names_are_relative_to_the_recipe(pair, tmp_path, monkeypatch):
    root = pair[0].parent
    (root / "r.yaml").write_text(yaml.safe_dump({**LEAST["align"], "write": {"out": "out"}}))
    monkeypatch.chdir(tmp_path)
    found = load(root / "r.yaml")
    assert [Path(model.path) for model in found.models] == list(pair)
    assert Path(found.write.out) == root / "out"
    assert load(root / "r.yaml", out=Path("here")).write.out == "here"
    text = yaml.safe_dump({**LEAST["barrier"], "task": {"data": "text:t.txt"}})
    (root / "s.yaml").write_text(text)
    assert load(root / "s.yaml").task.data == f"text:{root / 't.txt'}"


def test_a_folder_of_the_same_name_elsewhere_is_not_taken(pair, tmp_path, monkeypatch):
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(LEAST["align"]))
    monkeypatch.chdir(pair[0].parent)  # where a and b are folders
    with pytest.raises(BadRecipe, match="names are relative to the folder of the recipe"):
        load(tmp_path / "r.yaml")
    (tmp_path / "r.yaml").write_text(yaml.safe_dump({**LEAST["align"], "models": ["some/model", "gpt"]}))
    assert [model.path for model in load(tmp_path / "r.yaml").models] == ["some/model", "gpt"]  # Hub ids


def test_the_commit_of_a_hub_model_is_recorded(pair, tmp_path, monkeypatch):
    snapshot = shutil.copytree(pair[0], tmp_path / "snapshots" / "0123abc")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(snapshot))
    models = ["some/model", str(pair[1])]
    run(parse({**WEIGHT, "models": models, "write": {"out": str(tmp_path / "out")}}))
    written = yaml.safe_load((tmp_path / "out" / "recipe.yaml").read_text())
    assert written["models"][0] == {"path": "some/model", "revision": "0123abc"}
    assert isinstance(written["models"][1], str)


# ---- runs can be done again


def tensors(folder: Path) -> dict[str, bytes]:
    """Every safetensors file below a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*.safetensors"))}


ACTIVATION = ("--method", "activation", "--task", "builtin:python", "--samples", "8")


@pytest.mark.parametrize("flags", [("align",), ("merge", "--weight", "0.3"), ("align", *ACTIVATION)], ids=" ".join)
def test_a_run_can_be_done_again(cli, pair, tmp_path, flags):
    verb, *options = flags
    code, _, err = cli(verb, *pair, "-o", tmp_path / "one", *options, "--set", "matching.sweeps=3"
                       if "activation" not in flags else "device=cpu")  # fmt: skip
    assert (code, err) == (0, "")
    assert cli("run", tmp_path / "one" / "recipe.yaml", "-o", tmp_path / "two")[0] == 0
    assert tensors(tmp_path / "one") == tensors(tmp_path / "two")
    assert (tmp_path / "one" / "recipe.yaml").read_text() == (tmp_path / "two" / "recipe.yaml").read_text()
    other = "write.dtype=float64" if "activation" in flags else "matching.sweeps=1"
    assert cli("run", tmp_path / "one" / "recipe.yaml", "-o", tmp_path / "three", "--set", other)[0] == 0
    assert tensors(tmp_path / "one") != tensors(tmp_path / "three")


def test_flags_and_file_are_one(cli, pair, tmp_path):
    (tmp_path / "r.yaml").write_text(
        yaml.safe_dump({**LEAST["merge"], "models": [str(pair[0]), str(pair[1])], "weight": 0.25,
                        "matching": {"sweeps": 2, "weighting": "raw"}, "write": {"out": "file", "dtype": "float16"}})
    )  # fmt: skip
    assert cli("run", tmp_path / "r.yaml")[0] == 0
    code, _, _ = cli("merge", *pair, "-o", tmp_path / "flags", "--weight", "0.25", "--dtype", "float16",
                     "--set", "matching.sweeps=2", "--set", "matching.weighting=raw")  # fmt: skip
    assert code == 0
    assert tensors(tmp_path / "file") == tensors(tmp_path / "flags")
    assert (tmp_path / "file" / "recipe.yaml").read_text() == (tmp_path / "flags" / "recipe.yaml").read_text()


def test_the_folders_can_move_together(cli, pair, tmp_path):
    root = tmp_path / "here"
    shutil.copytree(pair[0].parent, root)
    assert cli("align", root / "a", root / "b", "-o", root / "out", "--method", "weight")[0] == 0
    text = (root / "out" / "recipe.yaml").read_text()
    assert "models: [../a, ../b]" in text
    assert str(tmp_path) not in text
    root.rename(tmp_path / "there")
    assert cli("run", tmp_path / "there" / "out" / "recipe.yaml", "-o", tmp_path / "again")[0] == 0
    assert tensors(tmp_path / "there" / "out") == tensors(tmp_path / "again")


def test_a_recipe_below_a_link_finds_its_models(cli, pair, tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "er")
    assert cli("align", *pair, "-o", tmp_path / "link" / "out", "--method", "weight")[0] == 0
    assert cli("run", tmp_path / "link" / "out" / "recipe.yaml", "-o", tmp_path / "again", "--dry-run")[0] == 0


def test_a_barrier_can_be_measured_again(cli, pair, tmp_path):
    few = ("--task", "builtin:python", "--samples", "4", "--points", "3", "--device", "cpu")
    code, out, _ = cli("barrier", *pair, *few, "--json", "-o", tmp_path / "one")
    report = json.loads(out)
    assert code == 0
    assert report["recipe"] == yaml.safe_load((tmp_path / "one" / "recipe.yaml").read_text())
    (tmp_path / "one" / "mine.yaml").write_text(json.dumps(report["recipe"]))  # JSON is YAML
    code, again, _ = cli("run", tmp_path / "one" / "mine.yaml", "--json", "-o", tmp_path / "two")
    assert (code, json.loads(again)) == (0, report)


@pytest.mark.parametrize("key", ["dtype", "torch_dtype", None])
def test_transformers_loads_the_dtype_that_was_asked_for(cli, pair, tmp_path, key):
    a, b = (shutil.copytree(folder, tmp_path / folder.name) for folder in pair)
    for folder in (a, b):
        config = json.loads((folder / "config.json").read_text())
        config.pop("dtype")
        (folder / "config.json").write_text(json.dumps({**config, **({key: "float32"} if key else {})}))
    for dtype, name in ((None, "float32"), ("bfloat16", "bfloat16"), ("float64", "float64")):
        out = tmp_path / f"out-{dtype}"
        assert cli("merge", a, b, "-o", out, "--method", "weight", *(("--dtype", dtype) if dtype else ()))[0] == 0
        assert str(AutoModelForCausalLM.from_pretrained(out, dtype="auto").dtype) == f"torch.{name}"
