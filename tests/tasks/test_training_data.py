"""Tasks as training data: every sample in turn, windows from anywhere, held-back samples, moved and mirrored images."""

from __future__ import annotations

import pytest
import torch

from onebasin.errors import BadTask
from onebasin.tasks import CLASSIFICATION, LANGUAGE, Task, Windows, crop_and_flip, training


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def numbered(n: int) -> Task:
    return Task("numbered", CLASSIFICATION, {"x": torch.arange(n)[:, None]}, torch.arange(n), {"samples": n})


def test_a_batch_is_taken_by_number():
    inputs, labels = numbered(10).take(torch.tensor([7, 2]))
    assert inputs["x"].flatten().tolist() == labels.tolist() == [7, 2]


def test_an_order_is_a_permutation_of_its_generator():
    task = numbered(50)
    orders = [task.order(seeded(s)).tolist() for s in (0, 0, 1)]
    assert sorted(orders[0]) == list(range(50))
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("held", [1, 7, 49])
def test_held_back_samples_are_drawn_and_nowhere_else(held):
    rest, back = numbered(50).split(held)
    assert sorted([*rest.labels.tolist(), *back.labels.tolist()]) == list(range(50))
    assert len(back) == held == back.about["samples"]
    assert numbered(50).split(held)[1].labels.equal(back.labels)


def test_samples_in_some_order_are_held_back_without_it():
    """Classes that take turns, as in many files: every tenth sample would be of one class."""
    _, back = numbered(1000).split(100)
    assert (back.labels % 10).unique().numel() == 10


@pytest.mark.parametrize("held", [0, 50, 51])
def test_not_all_and_not_none_can_be_held_back(held):
    with pytest.raises(BadTask, match="cannot give that many"):
        numbered(50).split(held)


def windows(n: int = 1000, length: int = 16) -> Windows:
    return Windows("text", torch.arange(n), length, {})


def test_windows_of_an_epoch_do_not_overlap_and_begin_elsewhere_next_time():
    data = windows()
    starts = [data.order(seeded(s)).sort().values for s in range(4)]
    for x in starts:
        assert x.diff().unique().tolist() == [16]
        assert 0 <= int(x[0]) < 16
        assert int(x[-1]) + 16 < 1000
        assert len(x) == len(data)
    assert len({int(x[0]) for x in starts}) > 1
    inputs, labels = data.take(data.order(seeded(0))[:5])
    assert inputs["input_ids"].shape == labels.shape == (5, 16)
    assert labels.equal(inputs["input_ids"] + 1)


def test_held_back_windows_are_behind_the_text_that_is_left():
    rest, held = windows().split(10)
    assert int(rest.ids.max()) < int(held.inputs["input_ids"].min())
    assert held.labels.equal(held.inputs["input_ids"] + 1)
    assert int(held.labels.max()) == 999
    with pytest.raises(BadTask, match="cannot give that many"):
        windows().split(1000)


@pytest.mark.parametrize("length", [1, 5])
@pytest.mark.parametrize("n", range(8, 32))
def test_as_many_windows_are_held_back_as_the_refusal_says(n, length):
    """What is left is enough for one window from anywhere."""
    with pytest.raises(BadTask) as refused:
        windows(n, length).split(0)
    most = refused.value.expected
    for held in range(1, most + 1):
        rest, back = windows(n, length).split(held)
        assert len(back) == back.about["samples"] == held
        assert len(rest) >= 1
        assert rest.take(rest.order(seeded(0)))[1].shape == (len(rest), length)
    with pytest.raises(BadTask):
        windows(n, length).split(most + 1)


def test_training_on_a_text_reads_all_of_it():
    ids = torch.arange(100)
    task = Task("t", LANGUAGE, {"input_ids": ids[None, :8]}, ids[None, 1:9], {}, ids)
    data = training(task)
    assert isinstance(data, Windows)
    assert data.ids is ids
    assert data.length == 8
    assert training(numbered(5)).labels.tolist() == list(range(5))


def test_crops_and_flips_are_windows_of_the_mirrored_image():
    x = torch.randn(40, 2, 16, 16, generator=seeded(0))
    moved = crop_and_flip(x, seeded(1))
    assert moved.shape == x.shape
    assert moved.equal(crop_and_flip(x, seeded(1)))
    assert not moved.equal(crop_and_flip(x, seeded(2)))
    padded = torch.nn.functional.pad(x, (2, 2, 2, 2), mode="reflect")
    flips = 0
    for image, wide in zip(moved, padded, strict=True):
        places = [(t, l) for t in range(5) for l in range(5)]
        plain = any(image.equal(wide[:, t : t + 16, l : l + 16]) for t, l in places)
        flipped = any(image.equal(wide[:, t : t + 16, l : l + 16].flip(-1)) for t, l in places)
        assert plain or flipped
        flips += flipped
    assert 8 < flips < 32
