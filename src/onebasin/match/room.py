"""How much memory matching may take, and what of it is left for weights to rest in between two passes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onebasin.ensemble.memory import memory_here, page_work
from onebasin.errors import BadRecipe, OnebasinError
from onebasin.options import BYTES, Options, bytes_of
from onebasin.spec import ModelSpec

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Memory(Options):
    """The most memory to take, like 16GB; a part of what is free where nothing is given."""

    gpu: str | None = None
    host: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("gpu", "host"):
            self._given(key)

    def _given(self, key: str) -> int | None:
        text = getattr(self, key)
        found = None if text is None else bytes_of(text)
        if text is not None and found is None:
            step = "write it like 16GB or 800MB"
            raise BadRecipe(f"memory.{key} is no size", expected=BYTES, found=text, next_step=step)
        return found

    def room(self, device: torch.device, spec: ModelSpec) -> float:
        """Bytes for weights to rest in: what is given, or most of what is free, less what the work itself takes."""
        given = self._given("gpu" if device.type == "cuda" else "host")
        return max((given or 0.6 * free(device)) - page_work(spec), 0.0)

    def check(self, device: torch.device, spec: ModelSpec, needed: int) -> None:
        """Refuse a run that takes more than is given, before any work: `needed` bytes on the CPU, a page on a GPU."""
        host, gpu = self._given("host"), device.type == "cuda"
        if host is not None and not gpu and needed > host:
            step = f"give host={gigabytes(needed)} or more, or leave it out; --method weight takes least"
            raise OnebasinError("memory.host is too little", expected=f"{needed:,} bytes", found=host, next_step=step)
        page = page_work(spec) if gpu else 0
        there = (self._given("gpu") or free(device)) if gpu else 0
        if page > there:
            step = f"give gpu={gigabytes(page)} where there is as much, or --device cpu"
            what, expected = "The GPU has too little memory for a page of these models", f"{page:,} bytes"
            raise OnebasinError(what, expected=expected, found=f"{there:,.0f}", next_step=step)

    def keep(self, device: torch.device) -> None:
        """Let torch refuse what exceeds the memory given for the GPU."""
        import torch

        given = self._given("gpu")
        if given is not None and device.type == "cuda":
            total = torch.cuda.get_device_properties(device).total_memory
            torch.cuda.set_per_process_memory_fraction(min(given / total, 1.0), device.index or 0)


def gigabytes(nbytes: int) -> str:
    """Rounded up, as `--memory` reads it."""
    return f"{math.ceil(nbytes / 1e9)}GB"


def free(device: torch.device) -> float:
    """Bytes that are free on the GPU, or in this machine, where the system says so."""
    import torch

    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    here = memory_here(free=True)
    return math.inf if here is None else here
