"""The tensors of a checkpoint, read one at a time.

Opening reads headers only and checks all they can tell.  They say where each tensor is, so that a `read` goes straight
to it; what is read is given back with the tensor.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from safetensors import SafetensorError, safe_open

from onebasin.checkpoint.dtypes import DTYPES, is_finite, nbytes, torch_dtype
from onebasin.checkpoint.folder import quantised_error, read_json_object, weights_entry
from onebasin.checkpoint.reading import read_tensor
from onebasin.errors import BadCheckpoint

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Progress = Callable[[int, int], None]
"""Called after each tensor with the bytes done and the bytes in all."""

LENGTH = 8  # bytes of a file that say how long its header is
_AGAIN = "download or copy the checkpoint again"


class Header(NamedTuple):
    """What a file says of one tensor: the safetensors code of its type, its shape, the file's name, its first byte."""

    dtype: str
    shape: tuple[int, ...]
    file: str
    start: int

    @property
    def nbytes(self) -> int:
        """Bytes of data in the file."""
        return nbytes(self.dtype, self.shape)


@dataclass
class Shelf:
    """Where tensors rest between two reads, in their stored type: `room` bytes on `device`, first come, first kept.

    Several threads may take at once; of two that read the same tensor, one is kept.
    """

    device: torch.device | str = "cpu"
    room: float = 0
    kept: dict[str, Tensor] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def take(self, name: str, read: Callable[[torch.device | str], Tensor]) -> Tensor:
        """The tensor on the device: from the shelf, or read to it, and kept if there is room."""
        if name in self.kept:
            return self.kept[name]
        tensor = read(self.device)
        with self.lock:
            if name not in self.kept and tensor.nbytes <= self.room:
                self.room -= tensor.nbytes
                self.kept[name] = tensor
        return self.kept.get(name, tensor)


@dataclass(frozen=True)
class Store:
    """The named tensors of one folder.  `headers` is in the order of the files."""

    folder: Path
    headers: dict[str, Header]
    shelves: list[Shelf] = field(default_factory=lambda: [Shelf()], compare=False, repr=False)  # the last is in use

    @classmethod
    def open(cls, folder: Path) -> Store:
        """Read and check every header; no data.  Raises `BadCheckpoint` naming the file or tensor at fault."""
        entry = weights_entry(folder)
        headers = _sharded_headers(entry) if entry.suffix == ".json" else _file_headers(entry)
        for name, header in headers.items():
            if header.dtype not in DTYPES or (header.dtype == "U8" and not _is_causal_mask(header)):
                raise quantised_error(folder, tensor=name, found=header.dtype)
        return cls(folder, headers)

    @property
    def parameters(self) -> int:
        """How many floating-point numbers the checkpoint holds (masks and position ids are not counted)."""
        return sum(math.prod(h.shape) for h in self.headers.values() if DTYPES[h.dtype].is_float)

    @property
    def nbytes(self) -> int:
        """Bytes of data in all files."""
        return sum(header.nbytes for header in self.headers.values())

    def read(self, name: str) -> Tensor:
        """One tensor in its stored type, on the CPU unless it rests elsewhere; not to be changed in place."""
        return self.shelves[-1].take(name, partial(self._load, name))

    @property
    def device(self) -> torch.device | str:
        """Where tensors are read to."""
        return self.shelves[-1].device

    @contextmanager
    def resting(self, device: torch.device | str, room: float = 0) -> Iterator[None]:
        """Meanwhile tensors are read to `device`, and up to `room` bytes of them stay there."""
        self.shelves.append(Shelf(device, room))
        try:
            yield
        finally:
            self.shelves.pop()

    def _load(self, name: str, device: torch.device | str) -> Tensor:
        header = self.headers[name]
        file = self.folder / header.file
        with _legible(file):
            return read_tensor(file, header.start, header.shape, torch_dtype(header.dtype), device)

    def check_finite(self, progress: Progress | None = None) -> None:
        """Read every tensor once; raise `BadCheckpoint` at the first that holds NaN or infinity."""
        done, total = 0, self.nbytes
        for name, header in self.headers.items():
            tensor = self.read(name)
            if not is_finite(tensor):
                raise _not_finite(tensor, name, self.folder / header.file)
            done += header.nbytes
            if progress:
                progress(done, total)


def _is_causal_mask(header: Header) -> bool:
    """Old checkpoints store the causal mask as a byte tensor (1, 1, n, n); any other byte tensor is packed weights."""
    return len(header.shape) == 4 and header.shape[:2] == (1, 1) and header.shape[2] == header.shape[3]


def _not_finite(tensor: Tensor, name: str, file: Path) -> BadCheckpoint:
    bad = (~tensor.isfinite()).nonzero()
    value, where = tensor[tuple(bad[0])].item(), tuple(bad[0].tolist())
    return BadCheckpoint(
        f"{file} holds numbers that are not finite",
        tensor=name,
        expected="finite numbers",
        found=f"{len(bad)} of {tensor.numel()}, first {value} at {where}",
        next_step="take an earlier checkpoint of this training run",
    )


@contextmanager
def _legible(file: Path) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, OSError, EOFError, ValueError) as error:  # ValueError: shorter than what is to be mapped
        raise BadCheckpoint(f"{file} cannot be read", found=error, next_step=_repair(file)) from error


def _repair(file: Path) -> str:
    if file.is_file():
        with file.open("rb") as data:
            if data.read(23) == b"version https://git-lfs":
                return "this is a Git LFS pointer, not the file: run `git lfs pull`"
    return f"the file is damaged or incomplete: {_AGAIN}"


def _file_headers(file: Path) -> dict[str, Header]:
    with _legible(file), safe_open(file, framework="numpy") as handle, file.open("rb") as data:
        size = int.from_bytes(data.read(LENGTH), "little")
        said = json.loads(data.read(size))  # as safetensors has checked it
        found = {name: said[name] for name in handle.offset_keys()}
        return {
            name: Header(own["dtype"], tuple(own["shape"]), file.name, LENGTH + size + own["data_offsets"][0])
            for name, own in found.items()
        }


def _sharded_headers(index: Path) -> dict[str, Header]:
    weight_map = read_json_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(file, str) for file in weight_map.values()):
        raise BadCheckpoint(f"{index} has no weight_map from tensors to files", next_step=_AGAIN)
    headers: dict[str, Header] = {}
    for file in sorted(set(weight_map.values())):
        shard = index.parent / file
        if shard.name != file or not shard.is_file():
            raise BadCheckpoint(f"{index} names {file}, which is not in the folder", expected=file, next_step=_AGAIN)
        for name, header in _file_headers(shard).items():
            if weight_map.get(name) != file:
                place = weight_map.get(name, "in no file")
                what = f"{index} and {file} disagree"
                raise BadCheckpoint(what, tensor=name, expected=place, found=f"in {file}", next_step=_AGAIN)
            headers[name] = header
    for name in weight_map.keys() - headers.keys():
        file = weight_map[name]
        what = f"{index} and {file} disagree"
        raise BadCheckpoint(what, tensor=name, expected=file, found="not in that file", next_step=_AGAIN)
    return headers
