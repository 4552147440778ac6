"""What processes say to each other; the others are played by functions in place of torch's."""

from __future__ import annotations

import pytest
import torch
from torch import distributed

from onebasin.errors import BadTask, Lost
from onebasin.processes.ranks import rank, together
from onebasin.processes.world import World, processes

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("environment", "found"),
    [({}, (0, False)), ({"RANK": "1", "WORLD_SIZE": "2"}, (1, True)), ({"RANK": "1", "WORLD_SIZE": "1"}, (0, False)),
     ({"WORLD_SIZE": "2"}, (0, True)), ({"RANK": "3"}, (0, False))],
)  # fmt: skip
def test_torchrun_says_which_process_this_is(monkeypatch, environment, found):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (rank(), together()) == found


def test_one_alone_has_only_itself():
    with processes(CPU) as world:
        assert (world.size, world.rank) == (1, 0)
    gradient = torch.tensor([6.0, 9.0])
    world.average([gradient], 3)
    assert gradient.tolist() == [2, 3]
    value = torch.tensor(4.0)
    assert world.mean(value) == 4
    assert world.mean(value) is not value
    assert world.agreed(0.1, CPU) == 0.1
    assert (world.any(None, CPU), world.any("SIGTERM", CPU)) == (None, "SIGTERM")
    assert world.of_first("x") == "x"
    world.check(None)
    with pytest.raises(BadTask, match="mine"):
        world.check(BadTask("mine"))


@pytest.fixture
def two(monkeypatch) -> World:
    """This is the second of two processes; the first adds 10, says 0.25 and has a problem."""

    def gather(said: list[str | None], own: str | None) -> None:
        said[:] = ["theirs", own]

    monkeypatch.setattr(distributed, "all_reduce", lambda x: x.add_(10))
    monkeypatch.setattr(distributed, "broadcast", lambda x, first: x.fill_(0.25))
    monkeypatch.setattr(distributed, "broadcast_object_list", lambda box, first: box.__setitem__(first, "first"))
    monkeypatch.setattr(distributed, "all_gather_object", gather)
    return World(2, 1)


def test_two_agree(two):
    gradient, value = torch.tensor([2.0, 8.0]), torch.tensor(4.0)
    two.average([gradient], 3)
    assert gradient.tolist() == [2, 3]
    assert (two.mean(value), value) == (7, 4)
    assert two.agreed(0.1, CPU) == 0.25
    assert two.any(None, CPU) == "a signal to another process"
    assert two.any("SIGTERM", CPU) == "SIGTERM"
    assert two.of_first("x") == "first"
    with pytest.raises(Lost, match="Process 0 of this run cannot go on: theirs"):
        two.check(None)
    with pytest.raises(BadTask, match="mine"):
        two.check(BadTask("mine"))


def test_where_nobody_has_a_signal_or_problem_all_go_on(two, monkeypatch):
    monkeypatch.setattr(distributed, "all_reduce", lambda x: None)
    monkeypatch.setattr(distributed, "all_gather_object", lambda said, own: None)
    assert two.any(None, CPU) is None
    two.check(None)


def test_one_that_has_ended_is_named(two, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("connection closed\nby peer")

    for name in ("all_reduce", "broadcast", "broadcast_object_list", "all_gather_object"):
        monkeypatch.setattr(distributed, name, broken)
    for call in (lambda: two.mean(torch.tensor(1.0)), lambda: two.agreed(1.0, CPU), lambda: two.of_first(1),
                 lambda: two.check(None)):  # fmt: skip
        with pytest.raises(Lost, match="Another process of this run has ended") as caught:
            call()
        assert caught.value.found == "connection closed"
