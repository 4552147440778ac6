"""Rows in processes of their own: small models keep the host busier than the GPU."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import torch

from onebasin.errors import OnebasinError, Stopped
from onebasin.methods.method import Tick, silent
from onebasin.reproduce.measuring import measure_row
from onebasin.reproduce.plan import Row

Result = dict[str, Any] | str  # what was measured, or why nothing was


def attempt(row: Row, out: Path, device: torch.device, tick: Tick = silent) -> Result:
    """A row, or why there is none: one that fails does not end the others, a signal ends them all."""
    try:
        return measure_row(row, out, device, tick)
    except Stopped:
        raise
    except (OnebasinError, RuntimeError) as error:  # of torch, too: a GPU that is full, a solver that fails
        return f"{type(error).__name__}: {error}".replace("\n", "; ")


def result_of(future: Future[Result]) -> Result:
    try:
        return future.result()
    except BrokenProcessPool:
        return "its process was killed"


@contextmanager
def processes(workers: int) -> Iterator[ProcessPoolExecutor | None]:
    """Processes that measure rows, or none where one at a time is best; an interrupted run does not wait for them."""
    if workers < 2:
        yield None
        return
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin, (workers,))
    try:
        yield pool
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(workers: int) -> None:
    """Each process has its share of the processors, and none outlives the one that began it, however that ended."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)
