"""One weight file in the safetensors format, written while its tensors are made.

The format is a header and the numbers behind it: eight bytes with the length of the header, a JSON object with type,
shape and place of every tensor, then the tensors without gaps [1].  All of the header is known before a tensor is made,
so that no more than two of them are in memory: one is on its way to the disk while the next is made.

[1] https://huggingface.co/docs/safetensors
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from onebasin.checkpoint.dtypes import DTYPES

if TYPE_CHECKING:
    from torch import Tensor

    from onebasin.checkpoint.write import Planned

STEP = 8  # the numbers begin at a multiple of so many bytes


def in_file_order(tensors: Sequence[Planned]) -> list[Planned]:
    """Wide types first, so that every tensor begins at a multiple of the bytes of its numbers."""
    return sorted(tensors, key=lambda tensor: -DTYPES[tensor.dtype].itemsize)


def write_shard(file: Path, tensors: Sequence[Planned], made: Iterator[Tensor], metadata: Mapping[str, str]) -> None:
    """Write `tensors`, which `made` yields one by one: on the CPU, contiguous, in the planned types."""
    with file.open("wb") as out, ThreadPoolExecutor(1) as disk:
        out.write(header(tensors, metadata))
        written: Future[int] | None = None
        for tensor in made:
            if written is not None:
                written.result()
            written = disk.submit(out.write, _bytes(tensor))
        if written is not None:
            written.result()


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


def _bytes(tensor: Tensor) -> memoryview:
    import torch

    return tensor.reshape(-1).view(torch.uint8).numpy().data
