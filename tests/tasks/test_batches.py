"""Batches of a run: every sample once an epoch, shared between processes."""

from __future__ import annotations

import pytest
import torch

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
