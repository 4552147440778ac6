"""Names are relative to the recipe, and runs can be done again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import huggingface_hub
import pytest
import yaml
from transformers import AutoModelForCausalLM

from helpers.random_models import byte_llama
from helpers.recipe_texts import LEAST, WEIGHT
from onebasin.errors import BadRecipe
from onebasin.methods.activation import Activation
from onebasin.methods.method import UNSEEN
from onebasin.methods.weight import Weight
from onebasin.recipes import load, parse, prepare, run, running, samples
from onebasin.recipes.recipe import Model


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


def tensors(folder: Path) -> dict[str, bytes]:
    """Every safetensors file below a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*.safetensors"))}


ACTIVATION = ("--method", "activation", "--task", "builtin:python", "--samples", "8")


@pytest.mark.parametrize("flags", [("align",), ("merge", "--share", "0.3"), ("align", *ACTIVATION)], ids=" ".join)
def test_a_run_can_be_done_again(cli, pair, tmp_path, flags):
    verb, *options = flags
    code, _, err = cli(verb, *pair, "-o", tmp_path / "one", *options, "--set", "weight.sweeps=3"
                       if "activation" not in flags else "device=cpu")  # fmt: skip
    assert (code, err) == (0, "")
    assert cli("run", tmp_path / "one" / "recipe.yaml", "-o", tmp_path / "two")[0] == 0
    assert tensors(tmp_path / "one") == tensors(tmp_path / "two")
    assert (tmp_path / "one" / "recipe.yaml").read_text() == (tmp_path / "two" / "recipe.yaml").read_text()
    other = "write.dtype=float64" if "activation" in flags else "weight.sweeps=1"
    assert cli("run", tmp_path / "one" / "recipe.yaml", "-o", tmp_path / "three", "--set", other)[0] == 0
    assert tensors(tmp_path / "one") != tensors(tmp_path / "three")


def test_flags_and_file_are_one(cli, pair, tmp_path):
    (tmp_path / "r.yaml").write_text(
        yaml.safe_dump({**LEAST["merge"], "models": [str(pair[0]), str(pair[1])], "share": 0.25,
                        "weight": {"sweeps": 2, "paper": {"weighting": "raw"}},
                        "write": {"out": "file", "dtype": "float16"}})
    )  # fmt: skip
    assert cli("run", tmp_path / "r.yaml")[0] == 0
    code, _, _ = cli("merge", *pair, "-o", tmp_path / "flags", "--share", "0.25", "--dtype", "float16",
                     "--set", "weight.sweeps=2", "--set", "weight.paper.weighting=raw")  # fmt: skip
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


def test_of_several_processes_only_learning_is_shared(pair, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    recipe = parse({**WEIGHT, "models": list(map(str, pair)), "write": {"out": str(tmp_path / "out")}})
    assert run(recipe) == {}
    assert not (tmp_path / "out").exists()


def test_mergekit_is_told_where_models_are(pair, tmp_path, monkeypatch):
    monkeypatch.chdir(pair[0].parent)
    assert running._address(Model("a")) == str(pair[0].resolve())
    assert running._address(Model("some/model")) == "some/model"
    assert running._address(Model("some/model", revision="main")) == "some/model@main"


def test_an_alignment_trains_nothing(pair):
    plan = prepare(parse({**WEIGHT, "models": list(map(str, pair)), "write": {"out": "unwritten"}}))
    assert plan.trainings == 0


def test_what_was_known_of_samples_that_were_held_back_from_training():
    assert samples._known(Weight()) == UNSEEN
    assert samples._known(Activation()).startswith("held back from training; the method may have seen them")
