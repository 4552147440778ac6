"""Processes: several that share one run (`torchrun`), and the signals that ask one to end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, distributed


@dataclass(frozen=True)
class World:
    """How many processes there are, and which this is; one alone unless torch's process group says otherwise."""

    size: int = 1
    rank: int = 0

    def average(self, gradients: Iterable[Tensor], parts: int) -> None:
        """From sums over `parts` batches to the mean over them and over all processes, in place."""
        for gradient in gradients:
            if self.size > 1:
                distributed.all_reduce(gradient)
            if self.size * parts > 1:
                gradient /= self.size * parts

    def agreed(self, value: float, device: torch.device) -> float:
        """The value of the first process, so that all decide alike."""
        if self.size == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64, device=device)
        distributed.broadcast(shared, 0)
        return float(shared)

    def any(self, signal: str | None, device: torch.device) -> str | None:
        """The signal, if any process has received one: all of them stop at the same step."""
        if self.size == 1:
            return signal
        shared = torch.tensor(float(signal is not None), device=device)
        distributed.all_reduce(shared)
        return signal or ("a signal to another process" if float(shared) else None)


@contextmanager
def processes(device: torch.device) -> Iterator[World]:
    """The world that `torchrun` made, entered if nobody has; else this process alone."""
    if distributed.is_available() and distributed.is_initialized():
        yield World(distributed.get_world_size(), distributed.get_rank())
    elif int(os.environ.get("WORLD_SIZE", "1")) > 1:
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        try:
            yield World(distributed.get_world_size(), distributed.get_rank())
        finally:
            distributed.destroy_process_group()
    else:
        yield World()


def own_device(device: torch.device) -> torch.device:
    """The GPU of this process, where several share a machine."""
    if device.type == "cuda" and "LOCAL_RANK" in os.environ:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    return device


ENDING = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Inside the block SIGTERM and SIGINT only set `received`; a second one acts as it did before."""

    def __init__(self) -> None:
        self.received: str | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in ENDING}
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number).name
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __exit__(self, *error: object) -> None:
        self._restore()
