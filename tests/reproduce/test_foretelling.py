"""What is foretold of an entry grows with what there is to do, and rows fit into a short loan of a GPU."""

from __future__ import annotations

from dataclasses import replace

from onebasin.reproduce.foretelling import minutes, parameters, row_seconds, training_seconds
from onebasin.reproduce.models import fresh
from onebasin.reproduce.plan import Plan
from onebasin.reproduce.registry import ENTRIES

CALL = 9 * 60  # seconds
LOOKED_UP = ("wte", "wpe", "embed", "classifier")


def test_every_row_of_small_ends_within_nine_minutes():
    """Training is kept half done; a row is not."""
    for entry in ENTRIES.values():
        plan = entry.plan("small", 3)
        assert max(map(row_seconds, plan.rows)) < CALL
        assert 5 < minutes(plan) < 90


def test_more_steps_and_more_models_take_longer():
    plan = ENTRIES["p1-table2"].plan("small", 3)
    training = plan.trainings[0]
    longer = replace(training, course=replace(training.course, steps=2 * training.course.steps))
    fewer = replace(training, members=training.members[:1])
    assert training_seconds(fewer) < training_seconds(training) < training_seconds(longer)
    naive, learned = (next(row for row in plan.rows if row.label == label) for label in ("vanilla", "learned"))
    assert row_seconds(naive) < row_seconds(learned)
    assert minutes(Plan(plan.trainings, plan.rows[:1])) < minutes(plan)


def test_weights_are_counted_as_they_are():
    """But for vectors, and tables that are looked up."""
    for name in ("p1-table2", "p3-dual"):
        for training in ENTRIES[name].plan("tiny", 1).trainings:
            matrices = {name: x for name, x in fresh(training.model).named_parameters() if x.ndim > 1}
            real = [x.numel() for name, x in matrices.items() if not any(word in name for word in LOOKED_UP)]
            assert parameters(training.model) == sum(real)
