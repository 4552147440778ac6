"""`onebasin demo`: two models that were trained, aligned by every method, measured on data that none has seen."""

from __future__ import annotations

import hashlib
import json
import time

import numpy as np
import pytest
import torch
import transformers

from helpers.demos import tiny
from onebasin import Checkpoint
from onebasin.demo import VARIANTS, demonstrate
from onebasin.demo.demonstration import conclusion, methods
from onebasin.demo.training import batches, losses, training_data
from onebasin.landscape import evaluate
from onebasin.recipes import load
from onebasin.tasks import load_task
from onebasin.tasks.builtin import draw

METHODS = ["weight", "activation", "auto", "learned"]


@pytest.fixture
def small(monkeypatch):
    """Let the command line run the tiny variants."""
    for task, quick in VARIANTS:
        monkeypatch.setitem(VARIANTS, (task, quick), tiny(task))


def test_the_image_demo_from_the_command_line(cli, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = cli("demo", "--quick", "--quiet")
    assert (code, [line for line in err.splitlines() if not line.startswith("onebasin: warning")]) == (0, [])
    report = json.loads((tmp_path / "demo" / "demo.json").read_text())
    rows = [line for line in out.splitlines() if line.startswith(("plain average", *METHODS))]
    assert [row["method"] for row in report["rows"]] == ["plain average", *METHODS]
    for line, row in zip(rows[: len(METHODS) + 1], report["rows"], strict=True):
        assert line.startswith(row["method"])
        assert f"{row['barrier']:.3f}" in line
        assert f"{row['midpoint']:.1%}" in line
    assert report["conclusion"] in out
    assert f"merged, by learned alignment: {report['verdict']}" in out
    for row in report["scores"]["rows"]:
        assert f"{row['loss']:.4f} ± {row['standard_error']:.4f}" in out
    assert sorted(p.name for p in (tmp_path / "demo").iterdir()) == sorted(
        ["a", "b", *METHODS, "merged", "demo.json", "report.html"]
    )
    assert cli("demo", "--quick")[0] == 2  # the folder is not empty any more


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    out, begin = tmp_path_factory.mktemp("demo") / "out", time.perf_counter()
    report = demonstrate(tiny("text"), out)
    assert 0 < report["seconds"]["training"] < report["seconds"]["all"] <= time.perf_counter() - begin
    return out, report


def test_the_folders_are_stock_checkpoints(text):
    out, _ = text
    states = {}
    for name in ("a", "b", *METHODS, "merged"):
        model, info = transformers.AutoModelForCausalLM.from_pretrained(out / name, output_loading_info=True)
        assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
        states[name] = model.state_dict()
    for key, merged in states["merged"].items():
        assert torch.allclose(merged, (states["a"][key] + states["learned"][key]) / 2, atol=1e-6)
        assert torch.equal(states["a"][key], states["b"][key]) is False or "norm" in key


@pytest.mark.parametrize("json_asked", [True, False])
def test_what_is_trained_is_said_to_people_and_not_to_programs(cli, tmp_path, monkeypatch, text, json_asked):
    monkeypatch.setattr("onebasin.demo.demonstrate", lambda *_, **__: text[1])
    code, out, _ = cli("demo", "--task", "text", "-o", tmp_path / "out", *["--json"] * json_asked)
    assert code == 0
    assert out.startswith("two GPT-2s that write Python, trained here") != json_asked
    if json_asked:
        assert json.loads(out)["conclusion"] == text[1]["conclusion"]


def test_the_table_is_what_the_models_measure(text):
    out, report = text
    assert report["scores"]["held"] == "no model was trained on them"
    a = Checkpoint.open(out / "a")
    test = load_task(report["data"]["test"]["data"], a, samples=report["data"]["test"]["samples"])
    merged = evaluate(transformers.AutoModelForCausalLM.from_pretrained(out / "merged"), test)
    ends = [
        evaluate(transformers.AutoModelForCausalLM.from_pretrained(out / name), test).metrics["bits_per_byte"]
        for name in "ab"
    ]
    row = report["rows"][-1]
    assert row["midpoint"] == pytest.approx(merged.metrics["bits_per_byte"], abs=1e-5)
    assert row["ends"] == pytest.approx(sum(ends) / 2, abs=1e-5)
    assert f"{row['barrier']:.2f}" in conclusion(report)


def test_every_method_can_be_made_again_from_its_recipe(text):
    out, _ = text
    for method in METHODS:
        recipe = load(out / method / "recipe.yaml")
        assert recipe.method.name == method
        assert [Checkpoint.open(model.path).store.folder.name for model in recipe.models] == ["a", "b"]


def test_only_learning_sees_labels_and_none_sees_the_test_data():
    for variant in VARIANTS.values():
        seen = {method: document.get("task", {}).get("data") for method, document in methods(variant).items()}
        assert seen == {
            "weight": None, "activation": variant.train["data"], "auto": "synthetic", "learned": variant.train["data"],
        }  # fmt: skip
        assert variant.train["data"].removesuffix("train") == variant.test["data"].removesuffix("test")
    train, test = ({draw(0, i, split, 8, 8, 3).tobytes() for i in range(50)} for split in ("train", "test"))
    assert train & test == set()


def test_the_drawings_are_those_that_figures_were_measured_on():
    """A change of any of them asks for new figures in the README and the documentation."""
    pictures = [draw(i, i, split, 16, 20, 3).tobytes() for split in ("train", "test") for i in range(10)]
    assert hashlib.sha256(b"".join(pictures)).hexdigest().startswith("69bc4395f8710ecd")


def test_training_lowers_the_loss_and_seeds_differ():
    variant = tiny("image")
    data = training_data(variant)
    runs = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        runs.append(list(losses(variant.fresh(), data, variant, seed)))
    assert runs[0] == runs[1] != runs[2]
    assert np.mean(runs[0][-5:]) < np.mean(runs[0][:5])


def test_an_epoch_takes_every_sample_once():
    data = training_data(tiny("image"))
    stream = batches(data, 20, 0)
    epochs = [torch.cat([next(stream) for _ in range(3)]) for _ in range(2)]
    assert all(epoch.sort().values.tolist() == list(range(60)) for epoch in epochs)
    assert not epochs[0].equal(epochs[1])
