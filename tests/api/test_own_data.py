"""Own data and own losses through the verbs: what is measured and learned is what the functions say."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import onebasin
from helpers.learning import TINY
from helpers.random_models import random_model
from helpers.task_files import WORDS, add_tokenizer
from onebasin import Checkpoint
from onebasin.checkpoint.stock import stock_model
from onebasin.errors import BadTask

LEARN = {"steps": 30, "batch": 8, "eval_every": 10, "lr": 0.02, "start": "identity", "law": "middle"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Pairs of random models: images, and text with and without heads."""
    root = tmp_path_factory.mktemp("models")
    for name in ("ViTForImageClassification", "GPT2LMHeadModel"):
        for seed in (0, 1):
            random_model(name, TINY[name], seed).save_pretrained(root / f"{name}-{seed}")
    for name in ("LlamaModel", "LlamaForTokenClassification"):
        config = type(TINY["LlamaForCausalLM"])(**{**TINY["LlamaForCausalLM"].to_dict(), "num_labels": 3})
        for seed in (0, 1):
            random_model(name, config, seed).save_pretrained(root / f"{name}-{seed}")
    return root


def pair(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}-0", folder / f"{name}-1"


def images(labels: torch.Tensor | None = None) -> DataLoader:
    """48 images of noise in batches of 7, with labels."""
    g = torch.Generator().manual_seed(0)
    pixels = torch.randn(48, 3, 8, 8, generator=g)
    labels = torch.randint(3, (48,), generator=g) if labels is None else labels
    return DataLoader(TensorDataset(pixels, labels), batch_size=7)


def smoothed(outputs, labels):
    """What no head is measured by of itself."""
    return cross_entropy(outputs.logits, labels, label_smoothing=0.3, reduction="none")


def margin(outputs, labels):
    best = outputs.logits.topk(2).values
    return best[:, 0] - best[:, 1]


def test_a_curve_is_measured_by_the_functions_that_are_given(folder):
    a, b = pair(folder, "ViTForImageClassification")
    loader = images()
    curve = onebasin.barrier(a, b, task=loader, loss=smoothed, metrics={"margin": margin}, points=3)
    pixels, labels = loader.dataset.tensors
    for end, model in zip(curve.vertices, (a, b), strict=True):
        with torch.no_grad():
            outputs = stock_model(Checkpoint.open(model), torch.float32)(pixel_values=pixels)
        each = smoothed(outputs, labels)
        assert end.loss == pytest.approx(float(each.mean()), rel=1e-5)
        assert end.standard_error == pytest.approx(float(each.std()) / 48**0.5, rel=1e-4)
        assert end.metrics == {"margin": pytest.approx(float(margin(outputs, labels).mean()), rel=1e-5)}
    plain = onebasin.barrier(a, b, task=loader, points=3, metrics={"margin": margin})
    assert plain.vertices[0].metrics.keys() == {"accuracy", "margin"}
    assert plain.vertices[0].loss != pytest.approx(curve.vertices[0].loss, rel=1e-2)


def test_a_loss_may_be_the_mean_of_a_batch(folder):
    a, b = pair(folder, "ViTForImageClassification")
    each = onebasin.barrier(a, b, task=images(), loss=smoothed, points=2, batch_size=7)
    whole = onebasin.barrier(a, b, task=images(), loss=lambda *x: smoothed(*x).mean(), points=2, batch_size=7)
    assert whole.vertices[0].loss == pytest.approx(each.vertices[0].loss, rel=1e-6)
    assert len(whole.vertices[0].losses) == 7  # one for each batch, which the standard error is over
    assert whole.barrier_error >= 0


def test_learning_lowers_the_loss_that_is_given(folder):
    """A regression that the head was never meant for; another loss learns other maps."""
    a, b = pair(folder, "ViTForImageClassification")
    with torch.no_grad():
        wanted = stock_model(Checkpoint.open(a), torch.float32)(pixel_values=images().dataset.tensors[0]).logits[:, 0]

    def squared(outputs, labels):
        return (outputs.logits[:, 0] - labels).square()

    found = onebasin.align(a, b, method="learned", task=images(wanted), loss=squared, learned=LEARN)
    learning = found.course["learning"]
    assert learning["midpoint"] < 0.9 * learning["history"][0]["midpoint"]
    other = onebasin.align(a, b, method="learned", task=images(), loss=smoothed, learned=LEARN)
    assert not torch.allclose(other.alignment["residual"].dense(), found.alignment["residual"].dense(), atol=1e-3)
    assert found.certificate["output_drift"]["float64"] < 1e-9
    assert found.certificate["inputs"]["source"] == "DataLoader"


def test_what_learning_validates_is_what_the_function_gives(folder):
    """The midpoint before any step is the loss of the plain average on the samples that are held back."""
    a, b = pair(folder, "ViTForImageClassification")
    task = onebasin.tasks.as_task(images(), Checkpoint.open(a), loss=smoothed)
    found = onebasin.align(a, b, method="learned", task=task, learned={**LEARN, "steps": 1})
    _, held = task.split(4)
    average = onebasin.align(a, b, method="weight").ensemble  # canonical forms
    between = onebasin.barrier(*average.forms, task=held, points=3)
    assert found.course["learning"]["history"][0]["midpoint"] == pytest.approx(between.evaluations[1].loss, rel=1e-4)


def test_merge_and_auto_take_a_loader_too(folder):
    a, b = pair(folder, "ViTForImageClassification")
    options = {"task": images(), "loss": smoothed, "learned": {"steps": 2, "batch": 8, "eval_every": 1}}
    merged = onebasin.merge([a, b], method="auto", **options)
    assert merged.spec.architecture == "ViTForImageClassification"
    by_activation = onebasin.align(a, b, method="activation", task=images())
    assert by_activation.certificate["inputs"]["samples"] == 48


def test_a_loader_of_a_language_model_is_that_of_transformers(folder):
    """The loss of a dict with labels is the one that the model itself gives."""
    a, b = pair(folder, "GPT2LMHeadModel")
    ids = torch.randint(17, (6, 8), generator=torch.Generator().manual_seed(0))
    curve = onebasin.barrier(a, b, task=[{"input_ids": ids, "labels": ids}], points=2)
    with torch.no_grad():
        expected = float(stock_model(Checkpoint.open(a), torch.float32)(input_ids=ids, labels=ids).loss)
    assert curve.vertices[0].loss == pytest.approx(expected, rel=1e-5)


def test_a_recipe_says_that_a_file_cannot_hold_the_data(folder, tmp_path, cli):
    a, b = pair(folder, "ViTForImageClassification")
    onebasin.align(a, b, method="activation", task=images()).save(tmp_path / "out")
    assert yaml.safe_load((tmp_path / "out" / "recipe.yaml").read_text())["task"]["data"] == "own:DataLoader"
    code, _, err = cli("run", tmp_path / "out" / "recipe.yaml", "-o", tmp_path / "again")
    assert code == 2
    assert "made from Python, with data that a file cannot hold" in err


def test_a_loss_without_a_gradient_is_refused(folder):
    a, b = pair(folder, "ViTForImageClassification")
    with pytest.raises(BadTask, match="The loss has no gradient"):
        onebasin.align(
            a, b, method="learned", task=images(), learned=LEARN,
            loss=lambda outputs, labels: (outputs.logits.argmax(-1) == labels).float(),
        )  # fmt: skip
    with pytest.raises(BadTask, match="loss gave something else"):
        onebasin.barrier(a, b, task=images(), loss=lambda outputs, labels: outputs.logits)
    with pytest.raises(BadTask, match="nothing to read samples from"):
        onebasin.barrier(a, b, task=5)


# ---- the other kinds, end to end


def words(samples: int = 40) -> torch.Tensor:
    return torch.randint(17, (samples, 8), generator=torch.Generator().manual_seed(1))


def test_embeddings_are_learned_from_how_alike_the_models_find_inputs(folder):
    """The models between come nearer to what both ends find; the ends keep every cosine."""
    a, b = pair(folder, "LlamaModel")
    task = [{"input_ids": words()}]
    found = onebasin.align(a, b, method="learned", task=task, learned=LEARN)
    before, after = (onebasin.barrier(*models, task=task, points=3) for models in ((a, b), found.models))
    assert after.evaluations[1].loss < 0.9 * before.evaluations[1].loss
    assert [end.loss for end in after.vertices] == pytest.approx([0, 0], abs=1e-6)
    assert found.course["learning"]["midpoint"] < found.course["learning"]["history"][0]["midpoint"]
    assert found.certificate["output_drift"]["float64"] < 1e-9


def test_labels_of_words_are_learned(folder):
    a, b = pair(folder, "LlamaForTokenClassification")
    ids = words()
    with torch.no_grad():
        labels = stock_model(Checkpoint.open(a), torch.float32)(input_ids=ids).logits.argmax(-1)
    labels[:, 5:] = -100
    task = [{"input_ids": ids, "labels": labels}]
    found = onebasin.align(a, b, method="learned", task=task, learned=LEARN)
    learning = found.course["learning"]
    assert learning["midpoint"] < learning["history"][0]["midpoint"]
    before, after = (onebasin.barrier(*models, task=task, points=3) for models in ((a, b), found.models))
    assert after.evaluations[1].loss < before.evaluations[1].loss
    assert before.vertices[0].metrics["accuracy"] == 1


def test_gaps_are_learned_from_the_command_line(cli, tmp_path):
    """`text:FILE` with a model that fills gaps."""
    config = type(TINY["BertForSequenceClassification"])(
        **{**TINY["BertForSequenceClassification"].to_dict(), "vocab_size": len(WORDS), "pad_token_id": 0}
    )
    for seed in (0, 1):
        random_model("BertForMaskedLM", config, seed).save_pretrained(tmp_path / str(seed))
        add_tokenizer(tmp_path / str(seed), mask_token="very")
    (tmp_path / "t.txt").write_text("good film bad film bad good " * 60)
    task = ("--task", f"text:{tmp_path / 't.txt'}", "--samples", "40", "--length", "8")
    settings = "learned.batch=8", "learned.eval_every=5", "learned.lr=0.02", "learned.learn=[ov]"
    sets = [word for setting in settings for word in ("--set", setting)]
    code, _, err = cli("merge", tmp_path / "0", tmp_path / "1", "--method", "learned", "--steps", 20, *sets,
                       *task, "-o", tmp_path / "out", "--quiet")  # fmt: skip
    assert code == 0, err
    code, out, err = cli("barrier", tmp_path / "0", tmp_path / "out", *task, "--points", 3)
    assert code == 0, err
    assert "accuracy" in out
