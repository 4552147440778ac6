"""Learning from several tasks: the weighted mean of their losses, each by its labels or by what the models say."""

from __future__ import annotations

import pytest
import torch

from helpers.learning import RUN, inputs_of, objective, taught_by, write_pair
from onebasin.checkpoint.stock import stock_model
from onebasin.ensemble.ensemble import Ensemble
from onebasin.errors import BadTask
from onebasin.landscape import evaluate
from onebasin.learn.learning import learn
from onebasin.learn.options import LearnedMatching
from onebasin.learn.steps import Steps
from onebasin.match.many import as_they_are
from onebasin.processes.world import World
from onebasin.tasks import CLASSIFICATION, IGNORED, Task, mix
from onebasin.tasks.batches import MixedBatches

VIT = "ViTForImageClassification"
FEW = {**RUN, "steps": 2, "eval_every": 1}


@pytest.fixture
def pair(tmp_path):
    return write_pair(tmp_path, VIT)


def unlabelled(checkpoint, samples: int) -> Task:
    labels = torch.full((samples,), IGNORED)
    return Task("bare", CLASSIFICATION, inputs_of(checkpoint, samples, seed=5), labels, {})


def learned(pair, task, validation, **options):
    start = as_they_are(Ensemble.of(list(pair)))
    return learn(start, task, validation, LearnedMatching(**{**FEW, **options})).course["learning"]


def test_a_mixture_of_one_task_is_learned_like_the_task(pair):
    task = taught_by(pair[0], 64)
    alone, mixed = (learned(pair, x, 16) for x in (task, mix({"x": task})))
    for one, other in zip(alone["history"], mixed["history"], strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
    assert alone["ends"] == mixed["ends"]


def test_a_step_lowers_the_mean_of_the_losses_by_weight(tmp_path):
    """The loss of a batch, and its gradient, are the weighted sums of those of its tasks."""
    write_pair(tmp_path, VIT)
    made, a, b = objective(tmp_path, VIT)
    tasks = mix({"a": taught_by(a, 32), "b": taught_by(b, 32, seed=1)}, {"b": 3})
    steps = Steps(made, MixedBatches(tasks, 16, 0, augment=False, world=World()),
                  LearnedMatching(**FEW, clip=0.0), World())  # fmt: skip
    parts = list(steps.batches.parts(0, torch.device("cpu")))
    assert [weight for *_, weight in parts] == [0.25, 0.75]
    losses = [made(inputs, labels, steps.shares[0]) for inputs, labels, _ in parts]
    sums = [torch.autograd.grad(loss, steps.learned) for loss in losses]
    one, two = (float(loss.detach()) for loss in losses)
    steps.one()
    assert steps.mean_loss() == pytest.approx(0.25 * one + 0.75 * two)
    assert steps.mean_loss() != pytest.approx((one + two) / 2)  # the control
    for p, of_a, of_b in zip(steps.learned, *sums, strict=True):
        torch.testing.assert_close(p.grad, 0.25 * of_a + 0.75 * of_b)


def test_tasks_without_labels_are_learned_by_agreement_beside_those_with(pair):
    """At the models themselves no divergence is left, and the loss is that of the labels by their weight."""
    task = taught_by(pair[0], 32)
    held = mix({"labels": taught_by(pair[0], 16, seed=3), "bare": unlabelled(pair[0], 16)}, {"labels": 3})
    found = learned(pair, mix({"labels": task, "bare": unlabelled(pair[0], 32)}, {"labels": 3}), held)
    assert found["options"]["loss"] == "auto"
    for end, model in zip(found["ends"], pair, strict=True):
        assert end == pytest.approx(0.75 * evaluate(stock_model(model), held.tasks["labels"]).loss, rel=1e-6)
    assert found["history"][0]["midpoint"] > 0
    by = {True: "task", False: "agreement"}
    for labels in (True, False):  # of one kind the loss is decided on
        one = task if labels else unlabelled(pair[0], 32)
        assert LearnedMatching().for_task(mix({"x": one, "y": one})).loss == by[labels]


def test_the_task_loss_needs_labels_in_every_task(pair):
    with pytest.raises(BadTask, match="no labels to learn from"):
        learned(pair, mix({"x": taught_by(pair[0], 32), "bare": unlabelled(pair[0], 32)}), 8, loss="task")
