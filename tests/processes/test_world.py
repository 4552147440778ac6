"""What processes say to each other; the others are played by functions in place of torch's."""

from __future__ import annotations

import pytest
import torch
from torch import distributed

from onebasin.errors import BadTask, Lost
from onebasin.processes.ranks import rank, together
from onebasin.processes.world import World, heeding_others, processes

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


def test_a_part_weighs_by_what_it_counts(two):
    """Three here, and ten of the other: of both means, this one counts 3/13 of two."""
    assert World().part(torch.tensor(3)) == 1
    assert two.part(torch.tensor(3)) == pytest.approx(2 * 3 / 13)
    assert two.part(torch.tensor(3)).dtype == torch.float64
    assert World().part(torch.tensor(0)) == 0  # nothing anywhere


def test_an_error_of_speaking_with_others_is_told_from_all_others():
    def fails(error: RuntimeError) -> None:
        with heeding_others():
            raise error

    with pytest.raises(Lost, match="has ended"):
        fails(distributed.DistError("gone"))
    with pytest.raises(Lost, match="has ended"):
        fails(RuntimeError("[gloo/transport] connection closed"))
    with pytest.raises(RuntimeError, match="singular"):
        fails(RuntimeError("the matrix is singular"))


def test_a_group_is_entered_by_the_device_and_left(monkeypatch):
    called = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(distributed, "init_process_group", called.append)
    monkeypatch.setattr(distributed, "destroy_process_group", lambda: called.append("left"))
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(distributed, "get_rank", lambda: 1)
    for device in ("cpu", "cuda"):
        with processes(torch.device(device)) as world:
            called.append((world.size, world.rank))
    assert called == ["gloo", (2, 1), "left", "nccl", (2, 1), "left"]
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)  # by the user, who leaves it, too
    with processes(CPU) as world:
        assert world == World(2, 1)
    assert called[6:] == []


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
