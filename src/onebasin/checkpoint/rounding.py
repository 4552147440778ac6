"""Numbers of any floating type in the type they are written in: the only place that rounds."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from onebasin.checkpoint.dtypes import is_finite, torch_dtype
from onebasin.checkpoint.elementwise import in_parts
from onebasin.errors import BadOutput

if TYPE_CHECKING:
    from torch import Tensor

    from onebasin.checkpoint.write import Planned


def rounded(planned: Planned) -> Iterator[Tensor]:
    """The planned tensor is made, and comes in the planned type, flat, in parts."""
    import torch

    made, dtype, count = planned.make(), torch_dtype(planned.dtype), 0
    if isinstance(made, torch.Tensor):
        if made.shape != planned.shape or made.is_floating_point() != dtype.is_floating_point:
            raise _not_as_planned(planned, f"{made.dtype} {tuple(made.shape)}")
        made = in_parts(made.detach())
    for part in made:
        count += part.numel()
        stored = part.to(dtype)
        if not is_finite(stored):
            raise _not_finite(planned, part)
        yield stored
    if count != prod(planned.shape):
        raise _not_as_planned(planned, f"{count} numbers")


def _not_as_planned(planned: Planned, found: str) -> BadOutput:
    return BadOutput(
        "a tensor is not as planned",
        tensor=planned.name,
        expected=f"{planned.dtype} {planned.shape}",
        found=found,
        next_step="please report this: the plan of the output is wrong",
    )


def _not_finite(planned: Planned, part: Tensor) -> BadOutput:
    import torch

    if is_finite(part):
        return BadOutput(
            f"a tensor does not fit into {planned.dtype}",
            tensor=planned.name,
            expected=f"at most {torch.finfo(torch_dtype(planned.dtype)).max:.3g}",
            found=f"{part.abs().max().item():.3g}",
            next_step="write in BF16 or F32",
        )
    step = "check that the inputs are finite, then please report this"
    return BadOutput("a computed tensor is not finite", tensor=planned.name, expected="finite numbers", next_step=step)
