"""The number types a checkpoint may hold, under the codes that safetensors files use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from onebasin.errors import BadOutput
from onebasin.options import SHORT

if TYPE_CHECKING:
    import torch


class Dtype(NamedTuple):
    """`name` is what torch and `config.json` call it; `itemsize` is bytes per number."""

    name: str
    itemsize: int
    is_float: bool


DTYPES = {
    "F64": Dtype("float64", 8, True),
    "F32": Dtype("float32", 4, True),
    "BF16": Dtype("bfloat16", 2, True),
    "F16": Dtype("float16", 2, True),
    "I64": Dtype("int64", 8, False),
    "I32": Dtype("int32", 4, False),
    "I16": Dtype("int16", 2, False),
    "U8": Dtype("uint8", 1, False),
    "BOOL": Dtype("bool", 1, False),
}


def code_of(name: str | None) -> str | None:
    """The code of a type by any of its names: BF16, bfloat16 or bf16; None stays None."""
    if name is None or name in DTYPES:
        return name
    name = SHORT.get(name, name)
    for code, dtype in DTYPES.items():
        if dtype.name == name and dtype.is_float:
            return code
    step = "use one of these"
    expected = ", ".join(dtype.name for dtype in DTYPES.values() if dtype.is_float)
    raise BadOutput("there is no such dtype", expected=expected, found=name, next_step=step)


def nbytes(code: str, shape: Sequence[int]) -> int:
    """Bytes that a tensor of this type and shape takes in a file."""
    return math.prod(shape) * DTYPES[code].itemsize


def torch_dtype(code: str) -> torch.dtype:
    """The torch type behind a safetensors code: `torch_dtype("BF16") is torch.bfloat16`."""
    import torch

    dtype: torch.dtype = getattr(torch, DTYPES[code].name)
    return dtype


def rounding_unit(codes: Iterable[str]) -> float:
    """The largest eps of some floating types."""
    import torch

    return max(torch.finfo(torch_dtype(code)).eps for code in codes if DTYPES[code].is_float)


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether no entry is NaN or infinite.  Reads the tensor once and allocates nothing of its size."""
    import torch

    if not tensor.is_floating_point() or tensor.numel() == 0:
        return True
    return all(math.isfinite(end) for end in torch.aminmax(tensor.detach()))
