"""Work that several processes of this machine share: forked, so that nothing is imported twice."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from onebasin.errors import OnebasinError

LIMIT = 120  # seconds


def together(count: int, place: Path, work: Callable[[], Any], kill: int | None = None) -> list[Any]:
    """What `work()` gives in each of `count` processes, or its error.

    One of them is killed with −9 once there is a file `now` in the folder; it gives None.
    """
    place.mkdir()
    fork = multiprocessing.get_context("fork")
    pipes = [fork.Pipe() for _ in range(count)]
    each = [fork.Process(target=_one, args=(rank, count, place, work, pipes[rank][1])) for rank in range(count)]
    for process in each:
        process.start()
    if kill is not None:
        _wait_for(place / "now")
        each[kill].kill()
    found = [None if rank == kill else _told(pipe) for rank, (pipe, _) in enumerate(pipes)]
    for process in each:
        process.join(LIMIT)
    assert all(process.exitcode is not None for process in each), "a process has not ended"
    return found


def _told(pipe: Connection) -> Any:
    assert pipe.poll(LIMIT), "a process has nothing to tell"
    return pipe.recv()


def _wait_for(file: Path) -> None:
    end = time.monotonic() + LIMIT
    while not file.exists():
        assert time.monotonic() < end
        time.sleep(0.01)


def _one(rank: int, count: int, place: Path, work: Callable[[], Any], pipe: Connection) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{place}/meeting", rank=rank, world_size=count)
    try:
        found: Any = work()
    except OnebasinError as error:
        found = error
    pipe.send(found)
    os._exit(0)  # without the farewell of the group: one of it may be gone
