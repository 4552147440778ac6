"""Several tasks as one: their weights, parts, batches and splits."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from helpers.task_files import bert, gpt2, npz, pixels, vit
from onebasin import Checkpoint
from onebasin.errors import BadTask
from onebasin.processes.world import World
from onebasin.tasks import CLASSIFICATION, LANGUAGE, Mixture, Task, as_task, mix, parts_of, training, with_labels
from onebasin.tasks.batches import Batches, MixedBatches

CPU = torch.device("cpu")


def numbers(count: int, first: int = 0, name: str = "numbers") -> Task:
    """Inputs that name themselves: sample i reads and is called first + i."""
    ids = torch.arange(first, first + count)
    return Task(name, CLASSIFICATION, {"input_ids": ids[:, None].repeat(1, 4)}, ids, {"samples": count})


def test_weights_are_relative_and_sum_to_one():
    found = mix({"a": numbers(4), "b": numbers(4), "c": numbers(4)}, {"b": 2})
    assert found.weights == {"a": 0.25, "b": 0.5, "c": 0.25}
    assert [(name, weight) for name, _, weight in parts_of(found)] == [("a", 0.25), ("b", 0.5), ("c", 0.25)]
    ((name, task, weight),) = parts_of(found.tasks["a"])  # a task alone is its own and only part
    assert (name, task, weight) == ("numbers", found.tasks["a"], 1.0)
    assert found.about["tasks"]["b"]["weight"] == 0.5


@pytest.mark.parametrize(
    ("tasks", "weights", "says"),
    [
        ({"a": numbers(4), "b": replace(numbers(4), kind=LANGUAGE)}, None, "do not go together"),
        ({"a": numbers(4), "b": replace(numbers(4), loss=lambda x, y: y)}, None, "another loss"),
        ({"a": numbers(4)}, {"b": 1}, "no such task to weigh"),
        ({"a": numbers(4), "mean": numbers(4)}, None, "called mean"),
    ],
    ids=["kinds", "losses", "weights", "names"],
)
def test_what_does_not_go_together_is_refused(tasks, weights, says):
    with pytest.raises(BadTask, match=says):
        mix(tasks, weights)


def test_an_own_loss_needs_labels_everywhere():
    loss = lambda outputs, labels: outputs.logits.sum(-1)  # noqa: E731
    made_up = replace(numbers(4, name="synthetic"), loss=loss)
    mix({"a": replace(numbers(4), loss=loss)})  # the control
    with pytest.raises(BadTask, match="needs labels in every task"):
        mix({"a": replace(numbers(4), loss=loss), "b": made_up})


def test_labels_are_kept_only_where_they_are_the_truth():
    found = mix({"a": numbers(4), "b": numbers(4, name="synthetic")}, {"a": 3})
    assert [task.scored for task in found.tasks.values()] == [True, False]
    assert not found.labelled
    left = with_labels(found)
    assert (list(left.tasks), left.weights) == (["a"], {"a": 1.0})
    assert with_labels(found.unlabelled()) is None


@pytest.mark.parametrize("n", [2, 6, 20])
def test_a_split_takes_as_many_of_every_task_and_leaves_the_others(n):
    whole = mix({"a": numbers(40), "b": numbers(8, 100)})
    rest, held = whole.split(n)
    for name, task in whole.tasks.items():
        assert sorted([*rest.tasks[name].labels.tolist(), *held.tasks[name].labels.tolist()]) == task.labels.tolist()
        assert len(held.tasks[name]) == max(1, min(n // 2, len(task) // 2))
    assert rest.weights == held.weights == whole.weights
    first, after = whole.first(n), whole.after(n)
    for name, task in whole.tasks.items():
        assert torch.cat([first.tasks[name].labels, after.tasks[name].labels]).equal(task.labels)
    assert whole.first(48) is whole


def test_a_mixture_of_one_task_gives_its_batches():
    task = numbers(24)
    alone = Batches(task, 8, 3, augment=False, world=World())
    mixed = MixedBatches(mix({"a": task}), 8, 3, augment=False, world=World())
    assert mixed.seen == alone.seen
    for n in range(5):
        ((inputs, labels, weight),) = mixed.parts(n, CPU)
        assert (weight, labels.tolist()) == (1.0, alone(n, CPU)[1].tolist())
        assert inputs["input_ids"].equal(alone(n, CPU)[0]["input_ids"])


def test_a_batch_has_every_task_with_its_weight():
    data = mix({"a": numbers(24), "b": numbers(24, 100), "none": numbers(24, name="synthetic")}, {"b": 2})
    mixed = MixedBatches(data, 12, 3, augment=False, world=World())
    for n in range(9):
        (_, a, one), (_, b, two), (inputs, none, _) = mixed.parts(n, CPU)
        assert (one, two) == (0.25, 0.5)
        assert (len(a), len(b), len(inputs["input_ids"])) == (4, 4, 4)
        assert int(a.max()) < 100 <= int(b.min())
        assert none is None  # nothing to learn from: the models are asked
    seen = torch.cat([next(iter(mixed.parts(n, CPU)))[1] for n in range(6)])
    assert sorted(seen.tolist()) == list(range(24))  # an epoch of this task


def test_processes_share_the_batches_of_all_tasks():
    data = mix({"a": numbers(24), "b": numbers(24, 100)})
    whole = MixedBatches(data, 8, 3, augment=False, world=World())
    halves = [MixedBatches(data, 8, 3, augment=False, world=World(2, rank)) for rank in (0, 1)]
    for n in range(4):
        parts = [list(half.parts(n, CPU)) for half in halves]
        for t, (_, labels, _) in enumerate(whole.parts(n, CPU)):
            assert labels.equal(torch.cat([part[t][1] for part in parts]))


def test_tasks_are_read_by_name(tmp_path):
    """Of any kind that the head can read; texts are learned from as a whole."""
    (tmp_path / "x.txt").write_text("one text " * 40)
    model = Checkpoint.open(gpt2(tmp_path / "gpt2"))
    text = f"text:{tmp_path / 'x.txt'}"
    found = as_task({"x": text, "own": as_task(text, model, samples=3)}, model, samples=2, weights={"x": 3})
    assert isinstance(found, Mixture)
    assert (found.weights, len(found)) == ({"x": 0.75, "own": 0.25}, 4)
    assert [type(part).__name__ for _, part, _ in parts_of(training(found))] == ["Windows", "Windows"]
    image = npz(tmp_path / "i.npz", images=pixels(4), labels=[0, 1, 2, 0])
    for tasks, weights, says in (
        ({"x": text, "i": image}, None, "does not read images|does not fit"),
        (text, {"x": 1}, "Weights are for several tasks"),
        ({"x": found}, None, "cannot hold another"),
    ):
        with pytest.raises(BadTask, match=says):
            as_task(tasks, model, weights=weights)
    batch = {"input_ids": torch.zeros(2, 4, dtype=torch.long)}
    with pytest.raises(BadTask, match="one batch is a list of one"):  # no names of tasks
        as_task(batch, model)
    classes = Checkpoint.open(vit(tmp_path / "vit"))
    assert len(as_task({"i": image, "j": image}, classes)) == 8
    with pytest.raises(BadTask):
        as_task({"i": image}, Checkpoint.open(bert(tmp_path / "bert")))
