"""One weight file in the safetensors format, written while its tensors are made.

The format is a header and the numbers behind it: eight bytes with the length of the header, a JSON object with type,
shape and place of every tensor, then the tensors without gaps [1].  All of the header is known before a tensor is made,
so that several can be made and written at once, each to its own place.

[1] https://huggingface.co/docs/safetensors
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from onebasin.checkpoint.dtypes import DTYPES
from onebasin.checkpoint.reading import on_host
from onebasin.checkpoint.rounding import rounded

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from onebasin.checkpoint.write import Planned

STEP = 8  # the numbers begin at a multiple of so many bytes
EACH = 2**26  # bytes in the file: so much for each of those at once, together; a larger tensor than that goes alone
AT_ONCE = {"cpu": 2, "cuda": 4}
"""How many tensors are made and written at once.

On a CPU one is on its way to the disk while the next is made; from a GPU reading, both copies and writing overlap.
"""


def in_file_order(tensors: Sequence[Planned]) -> list[Planned]:
    """Wide types first, so that every tensor begins at a multiple of the bytes of its numbers."""
    return sorted(tensors, key=lambda tensor: -DTYPES[tensor.dtype].itemsize)


def write_shard(
    file: Path, tensors: Sequence[Planned], metadata: Mapping[str, str], device: torch.device | str = "cpu"
) -> Iterator[int]:
    """Make `tensors` on the device and write them; yields the bytes of each when it is written."""
    import torch

    device = torch.device(device)
    start = header(tensors, metadata)
    file.write_bytes(start)
    ends = accumulate((tensor.nbytes for tensor in tensors), initial=len(start))
    waiting, busy = deque(zip(tensors, ends, strict=False)), dict[Future[None], int]()
    workers = AT_ONCE[device.type]
    most = workers * EACH
    with _pool(workers, device) as pool:
        while waiting or busy:
            while waiting and len(busy) < workers and (not busy or sum(busy.values()) + waiting[0][0].nbytes <= most):
                tensor, place = waiting.popleft()
                busy[pool.submit(_put, file, place, tensor)] = tensor.nbytes
            for done in wait(busy, return_when=FIRST_COMPLETED).done:
                done.result()
                yield busy.pop(done)


@contextmanager
def _pool(workers: int, device: torch.device) -> Iterator[ThreadPoolExecutor]:
    """Threads that work on the device that is in use here."""
    import torch

    current = 0
    if device.type == "cuda":
        current = torch.cuda.current_device()
        _load_solvers(device)

    def begin() -> None:
        if device.type == "cuda":
            torch.cuda.set_device(current)

    with ThreadPoolExecutor(workers, initializer=begin) as pool:
        yield pool


def _load_solvers(device: torch.device) -> None:
    """Torch does so for a GPU when it inverts its first matrix, and fails where two threads ask at once."""
    import torch

    torch.linalg.inv(torch.eye(1, device=device))


def _put(file: Path, place: int, tensor: Planned) -> None:
    """Make a tensor and write it where it belongs."""
    import torch

    with file.open("r+b") as out, torch.no_grad():
        out.seek(place)
        for part in rounded(tensor):
            out.write(_bytes(part))


def header(tensors: Sequence[Planned], metadata: Mapping[str, str]) -> bytes:
    """Length and header of a file that holds these tensors in this order."""
    ends = list(accumulate(tensor.nbytes for tensor in tensors))
    places = {
        tensor.name: {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [end - tensor.nbytes, end]}
        for tensor, end in zip(tensors, ends, strict=True)
    }
    text = json.dumps({"__metadata__": dict(metadata), **places}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % STEP)
    return len(text).to_bytes(STEP, "little") + text


def _bytes(part: Tensor) -> memoryview:
    import torch

    if part.device.type != "cpu":
        part = on_host(part).copy_(part)
    return part.view(torch.uint8).numpy().data
