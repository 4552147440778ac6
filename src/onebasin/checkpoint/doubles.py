"""Keep a forward pass in float64 where the model's code goes to float32 for a while: routers, norms, softmax.

In half precision these detours are for exactness.  In float64 they would leave 1e-7 on an exact symmetry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class Doubles(TorchFunctionMode):
    """While open, no tensor in float64 is turned into float32."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        if args and isinstance(args[0], Tensor) and args[0].dtype == torch.float64:
            if func is Tensor.float:
                return args[0]
            args = tuple(torch.float64 if x is torch.float32 else x for x in args)
            given = {name: torch.float64 if x is torch.float32 else x for name, x in given.items()}
        return func(*args, **given)


def forward_in_float64(model: nn.Module, *args: Any, **given: Any) -> Any:
    """The forward pass of the model's class."""
    with Doubles():
        return type(model).forward(model, *args, **given)
