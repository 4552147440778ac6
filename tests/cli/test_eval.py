"""`onebasin eval`, and what `onebasin merge` says of the quality of its result: in the terminal and in every file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from huggingface_hub import ModelCard

import onebasin
from helpers.random_models import byte_llama, config_of, random_model
from onebasin import Checkpoint
from onebasin.checkpoint.stock import stock_model
from onebasin.landscape import evaluate
from onebasin.methods.activation import PROBES
from onebasin.tasks import load_task

COUNT = 60


def vit(folder: Path, weights: int, **settings: object) -> Path:
    """A classifier that is sure of what it says."""
    config = config_of("vit", 3)
    config.update({"num_labels": 3, "num_channels": 3, **settings})
    model = random_model("ViTForImageClassification", config, weights)
    with torch.no_grad():
        model.classifier.weight *= 8
    model.save_pretrained(folder)
    return folder


def images(file: Path, labels: object) -> str:
    pixels = np.random.default_rng(0).integers(0, 256, (len(labels), 8, 8, 3), dtype=np.uint8)
    np.savez(file, images=pixels, labels=np.array(labels))
    return f"images:{file}"


@pytest.fixture(scope="module")
def classifiers(tmp_path_factory) -> tuple[Path, Path, str]:
    """A, B, and a task that A is good at: its own choices."""
    root = tmp_path_factory.mktemp("vits")
    a, b = vit(root / "a", 0), vit(root / "b", 1)
    blank = load_task(images(root / "blank.npz", [0] * COUNT), Checkpoint.open(a))
    with torch.no_grad():
        choices = stock_model(Checkpoint.open(a), torch.float32)(**blank.inputs).logits.argmax(-1)
    return a, b, images(root / "own.npz", choices.tolist())


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("llamas")
    return byte_llama(root / "a", 0), byte_llama(root / "b", 1)


ROWS = ["A (a)", "B (b)", "plain average", "merged", "ensemble"]


def test_a_merge_with_a_task_is_measured_everywhere(cli, classifiers, tmp_path):
    """A knows the answers and B does not: the average is worse, and that is said in the terminal and in every file."""
    a, b, own = classifiers
    out = tmp_path / "out"
    code, text, err = cli("merge", a, b, "-o", out, "--method", "weight", "--task", own)
    assert (code, err) == (0, "")
    written = json.loads((out / "certificate.json").read_text())
    scores, verdict = written["scores"], written["verdict"]
    assert [row["name"] for row in scores["rows"]] == ROWS
    assert verdict.startswith("worse than A by ")
    assert verdict.endswith(": not recommended")
    page, card = (out / "report.html").read_text(), (out / "README.md").read_text()
    for shown in (text, page, card):
        assert f"erged: {verdict}" in shown
        assert f"{COUNT} samples" in shown
        assert "held back: the method has not seen them" in shown
        assert all(f"{row['loss']:.4f} ± {row['standard_error']:.4f}" in shown for row in scores["rows"])
    task = load_task(own, Checkpoint.open(a))
    for row, model in zip(scores["rows"][::3], (a, out), strict=False):  # what was written is what is measured
        alone = evaluate(stock_model(Checkpoint.open(model), torch.float32), task)
        assert (row["loss"], row["metrics"]) == (pytest.approx(alone.loss), alone.metrics)


def test_the_hub_reads_the_card(cli, classifiers, tmp_path):
    a, b, own = classifiers
    assert cli("merge", a, b, "-o", tmp_path / "out", "--method", "weight", "--task", own)[0] == 0
    head = yaml.safe_load((tmp_path / "out/README.md").read_text().split("---\n")[1])
    assert head["base_model"] == ["a", "b"]
    (entry,) = head["model-index"]
    assert entry["results"][0]["task"]["type"] == "image-classification"
    merged = json.loads((tmp_path / "out/certificate.json").read_text())["scores"]["rows"][3]
    read = {
        result.metric_type: result.metric_value
        for result in ModelCard.load(tmp_path / "out/README.md").data.eval_results
    }
    assert read == {"loss": merged["loss"], "accuracy": merged["metrics"]["accuracy"]}
    assert cli("merge", a, b, "-o", tmp_path / "unknown", "--method", "weight")[0] == 0
    assert "model-index" not in yaml.safe_load((tmp_path / "unknown/README.md").read_text().split("---\n")[1])


def test_a_merge_that_is_better_is_not_advised_against(cli, texts, tmp_path):
    """Both models are sure of what is wrong, and the average is less so."""
    task = ("--task", "builtin:python", "--samples", "50")
    code, text, _ = cli("merge", *texts, "-o", tmp_path / "out", "--method", "weight", *task)
    assert code == 0
    assert "merged: better than " in text
    for file in ("README.md", "report.html", "certificate.json"):
        assert "not recommended" not in (tmp_path / "out" / file).read_text()
    assert "not recommended" not in text


@pytest.mark.parametrize(
    ("flags", "why"),
    [(("--method", "weight"), "there was no --task"),
     (("--method", "activation", "--task", "synthetic", "--samples", "9"), "synthetic has no labels")],
    ids=["no task", "made-up inputs"],
)  # fmt: skip
def test_without_labels_the_quality_is_unknown(cli, texts, tmp_path, flags, why):
    code, text, _ = cli("merge", *texts, "-o", tmp_path / "out", *flags)
    assert code == 0
    said = f"quality unknown, {why}; to know it: onebasin eval a b OUT --ensemble --task TASK"
    assert f"merged: {said}" in text
    assert json.loads((tmp_path / "out/certificate.json").read_text())["scores"] is None
    assert said in (tmp_path / "out/report.html").read_text()
    assert said in (tmp_path / "out/README.md").read_text()


def test_models_of_unequal_size_have_no_plain_average(cli, texts, tmp_path):
    big = byte_llama(tmp_path / "big", 2, intermediate_size=28)
    task = ("--task", "builtin:python", "--samples", "20")
    code, text, _ = cli("merge", texts[0], big, "-o", tmp_path / "out", "--method", "weight", *task)
    assert code == 0
    assert "plain average not measured: the models differ in shape (model.layers.0.mlp." in text
    scores = json.loads((tmp_path / "out/certificate.json").read_text())["scores"]
    assert [row["name"] for row in scores["rows"]] == ["A (a)", "B (big)", "merged", "ensemble"]


def test_what_was_learned_from_is_not_measured_on(cli, texts, tmp_path):
    learn = ("--method", "learned", "--steps", "2", "--set", "learned.batch=4", "--device", "cpu")
    task = ("--task", "builtin:python", "--samples", "40")
    code, out, _ = cli("merge", *texts, "-o", tmp_path / "out", *learn, *task, "--json")
    assert code == 0
    report = json.loads(out)
    scores, learning = report["scores"], report["learning"]
    assert learning["about"]["validation"].endswith(f", {scores['rows'][0]['samples']} samples")
    assert scores["held"].startswith("held back: nothing was learned from them")
    merged = next(row for row in scores["rows"] if row["name"] == "merged")
    assert merged["loss"] == pytest.approx(learning["midpoint"], rel=1e-4)  # the same samples that learning held back


def test_probes_of_activations_are_left_out_where_more_is_there(cli, classifiers, tmp_path):
    a, b, own = classifiers
    code, text, _ = cli("merge", a, b, "-o", tmp_path / "few", "--method", "activation", "--task", own)
    assert code == 0
    assert f"{COUNT} samples, ± one standard error; the method has seen them, without their labels" in text
    many = images(tmp_path / "many.npz", [i % 3 for i in range(PROBES + 7)])
    code, text, _ = cli("merge", a, b, "-o", tmp_path / "many", "--method", "activation", "--task", many)
    assert code == 0
    assert "7 samples, ± one standard error; held back: the method has not seen them" in text


# ---- eval


def test_eval_measures_any_models_that_the_task_fits(cli, classifiers, tmp_path):
    a, b, own = classifiers
    large = vit(tmp_path / "large", 2, intermediate_size=40)
    code, out, err = cli("eval", a, b, large, "--ensemble", "--task", own, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [row["name"] for row in found["rows"]] == ["a", "b", "large", "ensemble"]
    assert all(row["samples"] == COUNT for row in found["rows"])
    said = onebasin.evaluate(a, b, large, ensemble=True, task=own)
    assert said.as_dict() == found
    code, text, _ = cli("eval", a, "--task", own, "--samples", "20")
    assert code == 0
    assert "ensemble" not in text
    assert "20 samples" in text


def test_models_of_two_classes_have_an_ensemble_if_they_say_the_same_things(cli, texts, tmp_path):
    config = config_of("gpt2", 2)
    config.update({"vocab_size": 256, "n_positions": 32, "tie_word_embeddings": False})
    random_model("GPT2LMHeadModel", config, 0).save_pretrained(tmp_path / "gpt2")
    task = ("--task", "builtin:python", "--samples", "10")
    code, out, _ = cli("eval", texts[0], tmp_path / "gpt2", "--ensemble", *task, "--json")
    assert code == 0
    first, second, both = (row["loss"] for row in json.loads(out)["rows"])
    assert both < (first + second) / 2


def test_two_folders_of_one_name_get_letters(cli, texts, tmp_path):
    other = byte_llama(tmp_path / "a", 4)
    code, out, _ = cli("eval", texts[0], other, "--task", "builtin:python", "--samples", "3", "--json")
    assert code == 0
    assert [row["name"] for row in json.loads(out)["rows"]] == ["A (a)", "B (a)"]


def test_eval_refuses_what_cannot_be_measured(cli, texts, classifiers, tmp_path):
    a, _, own = classifiers
    four = vit(tmp_path / "four", 0, num_labels=4)
    named = vit(tmp_path / "named", 0, id2label={0: "x", 1: "y", 2: "z"}, label2id={"x": 0, "y": 1, "z": 2})
    other = vit(tmp_path / "other", 0, id2label={0: "x", 1: "y", 2: "w"}, label2id={"x": 0, "y": 1, "w": 2})
    for arguments, said in {
        (a, four, "--ensemble", "--task", own): "number of outputs differ\n  expected: 3 (a)\n  found: 4 (four)\n",
        (named, other, "--ensemble", "--task", own): "class names",
        (texts[0], "--task", "synthetic", "--samples", "4"): "nothing to measure against",
        (texts[0], a, "--task", own): "does not read images",
        (a, "--task", own, "--batch-size", "0"): "batch_size is out of range",
        (a, "--task", own, "--device", "tpu"): "device has no such choice",
    }.items():
        code, out, err = cli("eval", *arguments)
        assert (code, out) == (2, ""), arguments
        assert said in err
        assert "next step" in err
    assert cli("eval", a, four, "--task", own)[0] == 0  # each alone is fine
