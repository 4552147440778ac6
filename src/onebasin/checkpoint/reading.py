"""Numbers of a file as a tensor: mapped for the CPU, copied through pinned memory to a GPU.

A mapping costs nothing until it is looked at, and its memory goes with the tensor.  Copies to a GPU are several times
as fast from pinned memory; one piece is on its way while the next is read, and no more than these is on the host.
"""

from __future__ import annotations

from math import prod
from mmap import ACCESS_COPY, mmap
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

PIECE = 2**23  # bytes


def read_tensor(
    file: Path, start: int, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str
) -> Tensor:
    """The tensor that begins at byte `start`; what is changed in it stays out of the file."""
    import torch

    device = torch.device(device)
    if prod(shape) == 0:
        return torch.empty(shape, dtype=dtype, device=device)
    nbytes = prod(shape) * dtype.itemsize
    if device.type == "cuda":
        return copied(file, start, nbytes, device).view(dtype).reshape(shape)
    return mapped(file, start, nbytes).view(dtype).reshape(shape).to(device)


def mapped(file: Path, start: int, nbytes: int) -> Tensor:
    """The bytes as the system maps them into memory, each page when it is first looked at."""
    import torch

    with file.open("rb") as data:
        pages = mmap(data.fileno(), start + nbytes, access=ACCESS_COPY)
    return torch.frombuffer(pages, dtype=torch.uint8, offset=start, count=nbytes)


def copied(file: Path, start: int, nbytes: int, device: torch.device) -> Tensor:
    """The bytes on a device, piece by piece.  torch uses a pinned piece again when its copy has arrived."""
    import torch

    whole = torch.empty(nbytes, dtype=torch.uint8, device=device)
    with file.open("rb") as data:
        data.seek(start)
        for place in whole.split(PIECE):
            piece = on_host(place)
            if data.readinto(piece.numpy().data) < len(piece):
                raise EOFError(f"the file ends before byte {start + nbytes:,}")
            place.copy_(piece, non_blocking=True)
    return whole


def on_host(tensor: Tensor) -> Tensor:
    """Room for a tensor on the CPU, pinned if the tensor is on a GPU."""
    import torch

    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.device.type == "cuda")
