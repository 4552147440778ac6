"""How fast this machine is, from samples that take a fraction of a second."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

SAMPLE = 2**24  # bytes of a file that are read to see how fast that goes
WIDTH, LENGTH = 768, 2**23  # of a product on a CPU, and of a vector that is copied
TURNS = 3  # of every sample; the best counts: it is what nothing else disturbed

Clock = Callable[[], float]


@dataclass(frozen=True)
class Speed:
    """Operations a second of matrix products in float64, and in the type that models run in; bytes a second that go
    through memory, and that come from a file."""

    exact: float
    running: float
    memory: float
    file: float


def speed_here(device: torch.device, file: Path, clock: Clock = time.perf_counter) -> Speed:
    """That of products on `device`, and of reading `file` as it is now, in memory already or not."""
    return Speed(*_by_torch(device, clock), _file(file, clock))


def cpu_speed(file: Path, clock: Clock = time.perf_counter) -> Speed:
    """That of the CPU, for those that have no need of torch."""
    return Speed(*_by_numpy(clock), _file(file, clock))


@cache
def _by_torch(device: torch.device, clock: Clock) -> tuple[float, float, float]:
    import torch

    gpu = device.type == "cuda"
    n, half = (8192, torch.bfloat16) if gpu else (WIDTH, torch.float32)
    wide = torch.device("cpu") if device.type == "mps" else device

    def finish() -> None:
        if gpu:
            torch.cuda.synchronize(device)

    exact = _products(torch.ones(n, n, dtype=torch.float64, device=wide), clock, finish)
    running = _products(torch.ones(n, n, dtype=half, device=device), clock, finish)
    return exact, running, _copies(torch.ones(LENGTH, dtype=torch.float64, device=wide), clock, finish)


@cache
def _by_numpy(clock: Clock) -> tuple[float, float, float]:
    import numpy as np

    exact, running = (_products(np.ones((WIDTH, WIDTH), kind), clock) for kind in ("float64", "float32"))
    return exact, running, _copies(np.ones(LENGTH), clock)


def _products(x: Any, clock: Clock, finish: Callable[[], None] = lambda: None) -> float:
    """Operations a second of x @ x, for a square matrix of either library."""
    return 2 * len(x) ** 3 / _least(lambda: x @ x, clock, finish)


def _copies(x: Any, clock: Clock, finish: Callable[[], None] = lambda: None) -> float:
    """Bytes a second that are read and written where a vector is copied."""
    y = x + 0

    def copy() -> None:
        y[:] = x

    return float(2 * x.nbytes / _least(copy, clock, finish))


def _file(file: Path, clock: Clock) -> float:
    """Bytes from the middle, read once: the second time they would be in memory."""
    count = min(SAMPLE, file.stat().st_size)
    with file.open("rb", buffering=0) as data:
        start = clock()
        os.pread(data.fileno(), count, (file.stat().st_size - count) // 2)
        return count / max(clock() - start, 1e-6)


def _least(work: Callable[[], object], clock: Clock, finish: Callable[[], None]) -> float:
    """Seconds of the quickest of some turns, after one that warms up."""
    taken = []
    for _ in range(TURNS + 1):
        start = clock()
        work()
        finish()
        taken.append(clock() - start)
    return max(min(taken[1:]), 1e-6)
