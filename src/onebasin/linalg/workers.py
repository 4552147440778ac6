"""Assignments in other processes: scipy holds the interpreter's lock while it solves one."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from torch import Tensor

from onebasin.linalg.assignment import assign, improve
from onebasin.linalg.candidates import Candidates

HUGE = 2048  # rows of a problem that is worth another process

Again = Callable[[], Tensor]
Pending = Callable[[Again], Tensor]
"""Waits for an assignment over candidates and asks for the scores again, to see whether these were enough."""


class Workers:
    """Processes that solve assignments, started when the first one comes; as many as there are cores."""

    def __init__(self) -> None:
        self.count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._pool: ProcessPoolExecutor | None = None

    def takes(self, size: int, device: torch.device | str) -> bool:
        """Whether a problem is worth another process.

        On a CPU none is: all cores are at work, and the scores, which take longer than the assignment, would be made
        twice.
        """
        return size >= HUGE and torch.device(device).type != "cpu"

    def begin(self, scores: Tensor) -> Pending:
        """Start `assign` of one square matrix; what no process takes is solved at once."""
        if not self.takes(len(scores), scores.device):
            index = assign(scores)
            return lambda again: index
        candidates = Candidates.of(scores)
        solving = self._submit(min_weight_full_bipartite_matching, candidates.matrix(), True)

        def finish(again: Again) -> Tensor:
            index = improve(again(), candidates, torch.from_numpy(solving.result()[1]))
            return index.to(candidates.places.device, torch.long)

        return finish

    def _submit(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self.count, multiprocessing.get_context("spawn"))
        with _without_main():
            return self._pool.submit(function, *given)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


@contextmanager
def workers() -> Iterator[Workers]:
    """Processes that go when the work is done."""
    found = Workers()
    try:
        yield found
    finally:
        found.close()


@contextmanager
def _without_main() -> Iterator[None]:
    """New processes need nothing of the user's script, which without a guard would run again in each of them."""
    main = sys.modules["__main__"]
    file = patch.object(main, "__file__", None) if hasattr(main, "__file__") else nullcontext()
    with patch.object(main, "__spec__", None), file:
        yield
