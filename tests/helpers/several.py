"""A run of learning that several processes of this machine share: forked, so that nothing is imported twice."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed


def together(count: int, place: Path, work: Callable[[int], Any], kill: int | None = None) -> list[Any]:
    """What `work(rank)` gives in each of `count` processes: a value or an exception; None for one that was killed."""
    place.mkdir()
    fork = multiprocessing.get_context("fork")
    each = [fork.Process(target=_one, args=(rank, count, place, work)) for rank in range(count)]
    for process in each:
        process.start()
    if kill is not None:
        while not (place / "now").exists():
            time.sleep(0.01)
        each[kill].kill()
    for process in each:
        process.join(120)
        assert process.exitcode is not None, "a process of the run has not ended"
    files = [place / str(rank) for rank in range(count)]
    return [pickle.loads(file.read_bytes()) if file.exists() else None for file in files]


def _one(rank: int, count: int, place: Path, work: Callable[[int], Any]) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{place}/meeting", rank=rank, world_size=count)
    try:
        found: Any = work(rank)
    except Exception as error:  # for the test to look at
        found = error
    (place / f".{rank}").write_bytes(pickle.dumps(found))
    (place / f".{rank}").replace(place / str(rank))
    os._exit(0)
