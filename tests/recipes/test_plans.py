"""What is known of a run before it starts is what happens, and what it writes for another tool."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from safetensors.torch import load_file

from helpers.random_models import byte_llama, config_of, random_model
from helpers.recipe_texts import LEAST, WEIGHT
from onebasin import Checkpoint
from onebasin.checkpoint import output
from onebasin.recipes import Align, Merge, parse, prepare, run


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("pair")
    return byte_llama(root / "a"), byte_llama(root / "b", 1)


def gpt2(folder: Path, weights: int, *, tie: bool = False, tiny: bool = False) -> Path:
    config = config_of("gpt2", 2)
    config.tie_word_embeddings = tie
    model = random_model("GPT2LMHeadModel", config, weights)
    if tiny:
        model.transformer.h[0].ln_1.weight.data[1] = 1e-12
    model.save_pretrained(folder)
    return folder


GAINS = {
    "method": "learned", "task": {"data": "synthetic", "samples": 40, "length": 6}, "device": "cpu",
    "learned": {"steps": 1, "batch": 8, "learn": ["residual", "gains"]},
}  # fmt: skip


@pytest.mark.parametrize("case", ["plain", "tied", "tiny", "gains", "dual"])
@pytest.mark.parametrize("verb", ["align", "merge"])
@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_the_plan_is_what_happens(cli, tmp_path, verb, case, dtype):
    a, b = (gpt2(tmp_path / str(i), i, tie=case == "tied", tiny=case == "tiny") for i in (0, 1))
    kind = {"align": Align, "merge": Merge}[verb]
    write = {"out": str(tmp_path / "out"), **({"dtype": dtype} if dtype else {})}
    method = {"gains": GAINS, "dual": {**GAINS, "method": "dual"}}.get(case, {})
    recipe = parse({**WEIGHT, **method, "verb": verb, "models": [str(a), str(b)], "write": write})
    assert type(recipe) is kind
    before = sorted(tmp_path.rglob("*"))
    plan = prepare(recipe).as_dict()
    assert sorted(tmp_path.rglob("*")) == before
    report = run(recipe)
    assert plan["gauge"] == report["gauge"]
    assert ("canonical" in plan["gauge"]) == (case != "plain")
    folders = {"a", "b"} if verb == "align" and case != "plain" else {""}
    assert set(plan["writes"]) == folders
    for folder, nbytes in plan["writes"].items():
        stored = load_file(tmp_path / "out" / folder / "model.safetensors")
        assert nbytes == sum(x.numel() * x.element_size() for x in stored.values())
        Checkpoint.open(tmp_path / "out" / folder)


def test_a_dry_run_prints_the_plan_and_writes_nothing(cli, pair, tmp_path):
    out = tmp_path / "out"
    code, text, err = cli("merge", *pair, "-o", out, "--method", "weight", "--dry-run")
    assert (code, err) == (0, "")
    takes = "memory: about", "time: about", f"writes: {out}"
    for piece in ("merge a and b (LlamaForCausalLM)", "method weight", *takes, "gauge: the"):
        assert piece in text
    assert text.rstrip().endswith("nothing was written")
    (tmp_path / "r.yaml").write_text(yaml.safe_dump({**LEAST["barrier"], "models": [str(x) for x in pair]}))
    code, text, _ = cli("run", tmp_path / "r.yaml", "--dry-run", "--json")
    assert (code, json.loads(text)["task"]["samples"]) == (0, 4)
    code, text, _ = cli("run", tmp_path / "r.yaml", "--dry-run")
    assert (code, "factor path, 11 points" in text) == (0, True)
    assert [file.name for file in tmp_path.iterdir()] == ["r.yaml"]


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["real", "dry"])
def test_a_dry_run_refuses_what_a_run_refuses(cli, pair, tmp_path, dry):
    bad = byte_llama(tmp_path / "bad", num_hidden_layers=2)
    before = sorted(tmp_path.rglob("*"))
    for arguments in (("align", pair[0], bad), ("align", pair[0], pair[1], "--set", "nonsense=1"),
                      ("merge", pair[0], pair[1], "--max-shard-size", "much")):  # fmt: skip
        code, out, err = cli(*arguments, "-o", tmp_path / "out", *dry)
        assert (code, out) == (2, "")
        assert "next step:" in err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("verb", ["align", "merge"])
def test_a_plan_refuses_a_disk_that_cannot_take_the_weights(cli, pair, tmp_path, monkeypatch, verb):
    """One byte less than the plan itself says is too few; before anything is computed."""
    asked = (verb, *pair, "-o", tmp_path / "out", "--method", "weight", "--dry-run", "--json")
    needed = output.MARGIN + sum(json.loads(cli(*asked)[1])["writes"].values())
    for missing in (0, 1):
        monkeypatch.setattr(output.shutil, "disk_usage", lambda _: SimpleNamespace(free=needed - missing))  # noqa: B023
        code, _, err = cli(*asked)
        assert (code, "not enough disk space" in err) == (2 * missing, bool(missing))


# ---- mergekit


def test_a_recipe_for_mergekit(cli, pair, tmp_path):
    assert cli("align", *pair, "-o", tmp_path / "out", "--method", "weight", "--mergekit")[0] == 0
    written = yaml.safe_load((tmp_path / "out" / "mergekit.yaml").read_text())
    assert (written["merge_method"], written["dtype"]) == ("linear", "float32")
    assert [entry["model"] for entry in written["models"]] == [str(pair[0]), str(tmp_path / "out")]
    assert [entry["parameters"]["weight"] for entry in written["models"]] == [0.5, 0.5]
    assert cli("align", *pair, "-o", tmp_path / "plain", "--method", "weight")[0] == 0
    assert not (tmp_path / "plain" / "mergekit.yaml").exists()


def test_a_recipe_for_mergekit_names_both_canonical_models(cli, tmp_path):
    a, b = gpt2(tmp_path / "x", 0, tie=True), gpt2(tmp_path / "y", 1, tie=True)
    assert cli("align", a, b, "-o", tmp_path / "out", "--method", "weight", "--mergekit")[0] == 0
    written = yaml.safe_load((tmp_path / "out" / "mergekit.yaml").read_text())
    assert [entry["model"] for entry in written["models"]] == [str(tmp_path / "out" / x) for x in "ab"]
    for entry in written["models"]:
        Checkpoint.open(entry["model"]).check_values()
