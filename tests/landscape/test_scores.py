"""Models beside each other: the ensemble by hand, errors of metrics, the verdict in words and when it is not given."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from helpers.tiny import F64, predicted
from onebasin.checkpoint.stock import stock_model
from onebasin.errors import BadTask
from onebasin.landscape import Evaluation, Scores, evaluate, score
from onebasin.landscape.scores import ENSEMBLE, mean_prediction, verdict
from onebasin.landscape.tables import note_of, plus_minus, table_of
from onebasin.tasks import IGNORED

NAMES = ["GPT2LMHeadModel", "ViTForImageClassification"]


def row(*losses: float) -> Evaluation:
    each = torch.tensor(losses, dtype=F64)
    error = float(each.std() / math.sqrt(len(each)))
    return Evaluation(float(each.mean()), {"accuracy": 0.5}, error, len(each), each, {"accuracy": 0.1})


@pytest.mark.parametrize("name", NAMES)
def test_the_ensemble_averages_probabilities(tiny, name):
    """-log of the mean probability of the label, token by token; not the mean of logits, nor that of the losses."""
    a, b = tiny(name)
    task = predicted(stock_model(a), a, batch=12)
    if task.labels.ndim > 1:
        labels = task.labels.clone()
        labels[2, 3:], labels[5] = IGNORED, IGNORED
        task = replace(task, labels=labels)
    found = score({"a": (a, task), "b": (b, task)}, ["a", "b"], batch_size=5)
    assert list(found.rows) == ["a", "b", ENSEMBLE]
    with torch.no_grad():
        said = [stock_model(model, torch.float32)(**_float(task)).logits.double() for model in (a, b)]
    kept = task.labels != IGNORED
    right = [x.softmax(-1)[kept].gather(-1, task.labels[kept][:, None]) for x in said]
    mean = (right[0] + right[1]) / 2
    assert found.rows[ENSEMBLE].loss == pytest.approx(float(-mean.log().mean()), rel=1e-5)
    choice = sum(x.softmax(-1) for x in said)[kept].argmax(-1)
    assert found.rows[ENSEMBLE].metrics["accuracy"] == pytest.approx(
        float((choice == task.labels[kept]).double().mean())
    )
    logits = torch.stack(said).mean(0)[kept].log_softmax(-1).gather(-1, task.labels[kept][:, None])
    assert found.rows[ENSEMBLE].loss != pytest.approx(float(-logits.mean()), rel=1e-4)  # the controls
    assert found.rows[ENSEMBLE].loss < (found.rows["a"].loss + found.rows["b"].loss) / 2
    for name_, model in (("a", a), ("b", b)):
        alone = evaluate(stock_model(model, torch.float32), task, batch_size=5)
        assert found.rows[name_].losses.tolist() == pytest.approx(alone.losses.tolist())


def _float(task):
    return {name: x.float() if x.is_floating_point() else x for name, x in task.inputs.items()}


def test_what_an_ensemble_says_is_a_distribution():
    said = [torch.randn(4, 7, generator=torch.Generator().manual_seed(i), dtype=F64) for i in range(3)]
    together = mean_prediction(said)
    assert together.exp().sum(-1).tolist() == pytest.approx([1] * 4)
    torch.testing.assert_close(mean_prediction(said[:1]), said[0].log_softmax(-1))


def test_metrics_have_errors(tiny):
    a, _ = tiny("GPT2LMHeadModel")
    task = predicted(stock_model(a), a, batch=12)
    found = evaluate(stock_model(a), replace(task, about={"tokens": "bytes"}))
    error = found.standard_error
    assert found.metric_errors["bits_per_byte"] == pytest.approx(error / math.log(2))
    assert found.metric_errors["perplexity"] == pytest.approx(math.exp(found.loss) * error)
    assert found.metric_errors["accuracy"] == 0  # its own choices: every one is right


def test_a_row_that_cannot_be_measured_has_a_reason(tiny):
    a, b = tiny("ViTForImageClassification")
    task = predicted(stock_model(a), a, batch=4)
    name = next(iter(b))
    broken = b.derive({leaf: (lambda leaf=leaf: b[leaf] * (math.nan if leaf == name else 1)) for leaf in b})
    found = score({"a": (a, task), "b": (broken, task)}, ["a", "b"])
    assert list(found.rows) == ["a"]  # and no ensemble
    assert found.missing == {"b": "The loss of a model is not finite"}
    assert table_of(found.as_dict())[-1] == ["b", "not measured", ""]
    assert "b not measured: The loss" in note_of(found.as_dict())
    with pytest.raises(BadTask, match="not finite"):  # the control: alone it is refused
        evaluate(stock_model(broken, torch.float32), task)


MEMBERS = {"A (x)": "A", "B (y)": "B"}


@pytest.mark.parametrize(
    ("merged", "said"),
    [
        (row(1.6, 1.5, 1.7), "worse than A by 0.58 ± 0.02: not recommended"),
        (row(0.6, 0.5, 0.7), "better than A by 0.42 ± 0.02"),
        (row(1.9, 0.2, 1.0), "neither better nor worse than A, as far as 3 samples tell: 0.01 ± 0.48"),
    ],
    ids=["worse", "better", "alike"],
)
def test_the_verdict_is_that_of_the_loss_sample_by_sample(merged, said):
    scores = Scores({"A (x)": row(1.0, 0.96, 1.1), "B (y)": row(1.2, 1.3, 1.4), "merged": merged}, {"name": "task"})
    assert verdict(scores, MEMBERS, "merged") == said


@pytest.mark.parametrize(
    ("rise", "said"),
    [(1.0, "neither better"), (1.001, "worse than A"), (-1.0, "neither better"), (-1.001, "better than A")],
)
def test_a_difference_counts_beyond_two_standard_errors(monkeypatch, rise, said):
    monkeypatch.setattr(Scores, "difference", lambda *_: (rise, 0.5))
    two = row(1.0, 2.0)
    assert verdict(Scores({"A (x)": two, "merged": two}, {}), MEMBERS, "merged").startswith(said)
    assert "give more samples" in verdict(Scores({"merged": two}, {}), MEMBERS, "merged")  # no member was measured


def test_no_verdict_without_a_measurement():
    a, one = row(1.0, 2.0), replace(row(1.0, 2.0), samples=1)
    assert "give more samples" in verdict(Scores({"A (x)": one, "merged": one}, {}), MEMBERS, "merged")
    gone = Scores({"A (x)": a}, {}, {"merged": "not finite"})
    assert verdict(gone, MEMBERS, "merged") == "the result could not be measured: not finite"


def test_the_table_as_text():
    scores = Scores({"a": row(1.0, 2.0), ENSEMBLE: row(0.5, 1.0)}, {"name": "text:x", "split": "test"}, held="unseen")
    lines = str(scores).splitlines()
    assert lines[0].split() == ["model", "loss", "accuracy"]
    assert lines[1].split("  ")[0] == "a"
    assert "1.5000 ± 0.5000" in lines[1]
    assert "50.0 ± 10.0 %" in lines[1]
    assert lines[-1] == "text:x, split test, 2 samples, ± one standard error; unseen"
    assert [r["name"] for r in scores.as_dict()["rows"]] == ["a", ENSEMBLE]
    assert plus_minus(1.23456, 0.0001) == "1.2346 ± 0.0001"
    assert plus_minus(1.2, 0.0) == "1.20 ± 0.00"
