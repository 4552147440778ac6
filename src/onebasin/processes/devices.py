"""Devices by name: which names there are, which of them are here, and which belongs to this process."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from onebasin.errors import BadRecipe, BadTask
from onebasin.processes.ranks import together

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class DeviceName:
    """A rule in an annotation: the name of a device, whether it is here or not."""

    def __str__(self) -> str:
        return "auto, cpu, cuda, cuda:NUMBER or mps"

    def check(self, value: str, where: str) -> None:
        """Refuse other names."""
        if not re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,3})?", value):
            step = "use one of these; auto is always right"
            raise BadRecipe(f"{where} has no such choice", expected=self, found=value, next_step=step)


Device = Annotated[str, DeviceName()]


def pick_device(name: str) -> torch.device:
    """The device of that name; `auto` is a GPU of CUDA where there is one.

    Refuses what is not here.  Of several processes on a machine each gets a GPU of its own.
    """
    import torch

    DeviceName().check(name, "device")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    kind, _, number = name.partition(":")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise BadTask("torch finds no GPU of Apple here", expected=name, next_step="use --device auto")
    if kind == "cuda" and not gpus:
        raise BadTask("torch finds no GPU here", expected=name, found="cpu only", next_step="use --device cpu")
    if number and int(number) >= gpus:
        found = ", ".join(f"cuda:{i}" for i in range(gpus))
        raise BadTask(f"There is no GPU {number} here", expected=name, found=found, next_step="use one of these")
    if name == "auto":
        name = "cuda" if gpus else "cpu"
    return own_device(torch.device(name))


def own_device(device: torch.device) -> torch.device:
    """The GPU of this process, where several share a machine."""
    if device.type != "cuda" or "LOCAL_RANK" not in os.environ:
        return device
    import torch

    own = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    if device.index not in (None, own.index) and together():
        step = "use --device cuda: each process takes a GPU of its own"
        raise BadTask("Several processes cannot share one GPU", expected=own, found=device, next_step=step)
    torch.cuda.set_device(own)
    return own


def for_float64(device: torch.device) -> torch.device:
    """Where float64 is computed for work on a device: there, or on the CPU if it has none."""
    import torch

    return torch.device("cpu") if device.type == "mps" else device


@contextmanager
def quick_products() -> Iterator[None]:
    """TF32 for the products of float32 on a GPU, while open."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def random_numbers(seed: int, device: torch.device) -> Iterator[None]:
    """The numbers that torch draws follow from a seed, while open; afterwards they go on from where they were."""
    import torch

    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
