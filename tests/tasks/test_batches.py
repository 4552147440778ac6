"""Batches of a run: every sample once an epoch, shared between processes."""

from __future__ import annotations

import pytest
import torch

from onebasin.errors import BadTask
from onebasin.processes.world import World
from onebasin.tasks import CLASSIFICATION, Task
from onebasin.tasks.batches import Batches


@pytest.fixture
def task() -> Task:
    inputs = {"input_ids": torch.randint(17, (24, 8), generator=torch.Generator().manual_seed(0))}
    return Task("numbers", CLASSIFICATION, inputs, torch.arange(24), {})


def test_processes_share_every_batch(task):
    device = torch.device("cpu")
    whole = Batches(task, 8, 3, augment=False, world=World())
    halves = [Batches(task, 8, 3, augment=False, world=World(2, rank)) for rank in (0, 1)]
    for n in range(7):
        parts = [half(n, device)[1] for half in halves]
        assert whole(n, device)[1].equal(torch.cat(parts))


def test_every_sample_is_seen_once_an_epoch_and_in_another_order_next_time(task):
    device = torch.device("cpu")
    batches = Batches(task, 8, 3, augment=False, world=World())
    epochs = [torch.cat([batches(3 * e + k, device)[0]["input_ids"] for k in range(3)]) for e in (0, 1)]
    for epoch in epochs:
        assert sorted(map(tuple, epoch.tolist())) == sorted(map(tuple, task.inputs["input_ids"].tolist()))
    assert not epochs[0].equal(epochs[1])


def test_images_are_cropped_anew_in_every_batch_and_process_and_the_same_in_a_run_that_goes_on():
    drawn = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    pixels, device = drawn.repeat(24, 1, 1, 1), torch.device("cpu")
    task = Task("images", CLASSIFICATION, {"pixel_values": pixels}, torch.arange(24), {})

    def views(augment: bool, *worlds: World) -> list[torch.Tensor]:
        made = [Batches(task, 24, 3, augment=augment, world=world) for world in worlds]
        return [batches(n, device)[0]["pixel_values"] for batches in made for n in (0, 1)]

    ours = views(True, World(2, 0), World(2, 1))
    assert not any(one.equal(other) for i, one in enumerate(ours) for other in ours[:i])
    assert all(one.equal(other) for one, other in zip(ours, views(True, World(2, 0), World(2, 1)), strict=True))
    assert views(False, World(2, 0))[0].equal(drawn.repeat(12, 1, 1, 1))  # the control
    assert pixels.equal(drawn.repeat(24, 1, 1, 1))


def test_only_images_can_be_cropped(task):
    with pytest.raises(BadTask, match="Only images"):
        Batches(task, 8, 3, augment=True, world=World())
