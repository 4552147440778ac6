"""World: the processes that share one run, and what they say to each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, distributed

from onebasin.errors import Lost, OnebasinError
from onebasin.processes.ranks import together

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """How many processes there are, and which this is; one alone unless torch's process group says otherwise."""

    size: int = 1
    rank: int = 0

    def average(self, gradients: Iterable[Tensor], parts: int) -> None:
        """From sums over `parts` batches to the mean over them and over all processes, in place."""
        for gradient in gradients:
            self._add_up(gradient)
            gradient /= self.size * parts

    def mean(self, value: Tensor) -> Tensor:
        """The mean of a number over all processes."""
        mean = value.clone()
        self.average([mean], 1)
        return mean

    def part(self, count: Tensor) -> Tensor:
        """How much a mean over `count` things here weighs in the mean of the means of all processes."""
        own = count.to(torch.float32 if count.device.type == "mps" else torch.float64)
        total = own.clone()
        self._add_up(total)
        return self.size * own / total.clamp_min(torch.finfo(own.dtype).tiny)

    def agreed(self, value: float, device: torch.device) -> float:
        """The value of the first process, so that all decide alike."""
        if self.size == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64, device=device)
        with _all_there():
            distributed.broadcast(shared, 0)
        return float(shared)

    def any(self, signal: str | None, device: torch.device) -> str | None:
        """The signal, if any process has received one: all of them stop at the same step."""
        shared = torch.tensor(float(signal is not None), device=device)
        self._add_up(shared)
        return signal or ("a signal to another process" if float(shared) else None)

    def of_first(self, value: T) -> T:
        """What the first process has, any object that can be pickled, in all of them."""
        box = [value]
        if self.size > 1:
            with _all_there():
                distributed.broadcast_object_list(box, 0)
        return box[0]

    def check(self, problem: OnebasinError | None) -> None:
        """End all processes if one has a problem: with its own, or with the words of the first that has one."""
        said: list[str | None] = [str(problem) if problem else None]
        if self.size > 1:
            said = said * self.size
            with _all_there():
                distributed.all_gather_object(said, str(problem) if problem else None)
        if problem:
            raise problem
        for other, words in enumerate(said):
            if words:
                raise Lost(f"Process {other} of this run cannot go on: {words}")

    def _add_up(self, value: Tensor) -> None:
        if self.size > 1:
            with _all_there():
                distributed.all_reduce(value)


@contextmanager
def _all_there() -> Iterator[None]:
    """While open, processes speak with each other; one that has ended is an error of the others."""
    try:
        yield
    except RuntimeError as error:
        raise _lost(error) from error


@contextmanager
def heeding_others() -> Iterator[None]:
    """While open, modules that are shared out speak with each other; errors that are not of that stay what they are."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, distributed.DistError) or "gloo" in str(error):
            raise _lost(error) from error
        raise


def _lost(error: RuntimeError) -> Lost:
    step = "its own message stands beside this one; all of them have to start again"
    return Lost("Another process of this run has ended", found=str(error).splitlines()[0], next_step=step)


@contextmanager
def processes(device: torch.device) -> Iterator[World]:
    """The world that `torchrun` made, entered if nobody has; else this process alone."""
    if distributed.is_available() and distributed.is_initialized():
        yield World(distributed.get_world_size(), distributed.get_rank())
    elif together():
        with _all_there():
            distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        try:
            yield World(distributed.get_world_size(), distributed.get_rank())
        finally:
            distributed.destroy_process_group()
    else:
        yield World()
