"""Several tasks measured at once: means by weight, parts that are what each task gives alone, errors of both."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from helpers.tiny import predicted
from onebasin.checkpoint.stock import stock_model
from onebasin.landscape import evaluate, measure, score
from onebasin.landscape.evaluate import error_of, standard_error
from onebasin.landscape.tables import note_of, table_of
from onebasin.landscape.teacher import Teacher
from onebasin.paths import FactorPath
from onebasin.tasks import mix

VIT = "ViTForImageClassification"
WEIGHTS = {"own": 3.0}
SHARES = [0, 0.3, 1]


@pytest.fixture
def pair(tiny):
    """A, B, and two tasks: what A says, and what B says of other inputs."""
    a, b = tiny(VIT)
    own, other = predicted(stock_model(a), a, batch=12), predicted(stock_model(b), b, batch=20)
    tasks = {name: replace(task, inputs={k: x.float() for k, x in task.inputs.items()}) for name, task in
             {"own": own, "other": other.after(7)}.items()}  # fmt: skip
    return a, b, tasks


def test_the_curve_is_the_weighted_mean_of_the_curves(pair):
    a, b, tasks = pair
    path = FactorPath(a, b)
    both = measure(path, mix(tasks, WEIGHTS), shares=SHARES)
    each = {name: measure(path, task, shares=SHARES) for name, task in tasks.items()}
    for i in range(len(SHARES)):
        losses = {name: curve.evaluations[i].loss for name, curve in each.items()}
        assert both.evaluations[i].loss == pytest.approx(0.75 * losses["own"] + 0.25 * losses["other"])
        assert both.evaluations[i].loss != pytest.approx(sum(losses.values()) / 2, rel=1e-4)  # the control
        accuracy = 0.75 * each["own"].evaluations[i].metrics["accuracy"]
        accuracy += 0.25 * each["other"].evaluations[i].metrics["accuracy"]
        assert both.evaluations[i].metrics["accuracy"] == pytest.approx(accuracy)
    for name, curve in each.items():
        assert both.parts[name].barrier == pytest.approx(curve.barrier)
        assert both.parts[name].barrier_error == pytest.approx(curve.barrier_error)
        assert both.as_dict()["tasks"][name]["points"] == curve.as_dict()["points"]
    assert each["own"].parts == {}


def test_a_mixture_of_one_task_is_that_task(pair):
    a, b, tasks = pair
    alone = measure(FactorPath(a, b), tasks["own"], shares=SHARES)
    mixed = measure(FactorPath(a, b), mix({"x": tasks["own"]}), shares=SHARES)
    assert [e.loss for e in mixed.evaluations] == [e.loss for e in alone.evaluations]
    assert (mixed.barrier, mixed.barrier_error) == pytest.approx((alone.barrier, alone.barrier_error))


def test_errors_add_up_task_by_task(pair):
    """Samples of two tasks are independent; those of two models on one task are not."""
    a, b, tasks = pair
    one, two = (evaluate(stock_model(model, torch.float32), mix(tasks, WEIGHTS)) for model in (a, b))
    parts = {name: standard_error(one.parts[name].losses - two.parts[name].losses) for name in tasks}
    expected = ((0.75 * parts["own"]) ** 2 + (0.25 * parts["other"]) ** 2) ** 0.5
    assert error_of([(1.0, one), (-1.0, two)]) == pytest.approx(expected)
    assert error_of([(1.0, one), (-1.0, one)]) == 0
    assert one.standard_error == pytest.approx(error_of([(1.0, one)]))
    assert one.samples == sum(map(len, tasks.values()))


def test_tasks_without_labels_are_measured_against_the_models(pair):
    """Those with labels by their loss: each has the figure that it has alone."""
    a, b, tasks = pair
    half, model = Teacher((a, b), tasks["own"].kind).at([0.5, 0.5]), stock_model(b, torch.float32)
    bare = tasks["other"].unlabelled()
    found = evaluate(model, mix({"own": tasks["own"], "bare": bare}), target=half)
    assert found.parts["own"].loss == evaluate(model, tasks["own"]).loss
    assert found.parts["bare"].loss == evaluate(model, bare, target=half).loss
    assert found.loss == pytest.approx((found.parts["own"].loss + found.parts["bare"].loss) / 2)
    assert found.metrics == {}  # accuracy of one, agreement of the other
    middle = measure(FactorPath(a, b), mix({"own": tasks["own"], "bare": bare}), shares=[0, 0.5, 1])
    assert middle.parts["bare"].evaluations[0].loss == pytest.approx(0, abs=1e-6)


def test_scores_have_a_line_for_every_task_and_one_for_the_mean(pair):
    a, b, tasks = pair
    task = mix(tasks, WEIGHTS)
    found = score({"a": (a, task), "b": (b, task)}, ["a", "b"])
    alone = {name: score({"a": (a, x), "b": (b, x)}, ["a", "b"]) for name, x in tasks.items()}
    assert list(found.rows) == ["a", "b", "ensemble"]
    for row, figures in found.rows.items():
        parts = {name: scores.rows[row].loss for name, scores in alone.items()}
        assert {name: part.loss for name, part in figures.parts.items()} == parts
        assert figures.loss == pytest.approx(0.75 * parts["own"] + 0.25 * parts["other"])
    cells = table_of(found.as_dict())
    assert cells[0] == ["model", "task", "loss", "accuracy"]
    assert [line[:2] for line in cells[1:4]] == [["a", "own"], ["", "other"], ["", "mean"]]
    assert "own (own): 0.75, other (own): 0.25" in note_of(found.as_dict())
