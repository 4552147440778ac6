"""Run a checkpoint that is too large to be a model in memory: a module has its weights while it runs, and no longer.

The module tree is transformers' own, built without weights.  What is in memory is one module's parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.stock import build, source_key


def streamed_model(
    checkpoint: Checkpoint, dtype: torch.dtype = torch.float64, stored: Callable[[str], torch.dtype] | None = None
) -> nn.Module:
    """As `stock_model`, where the checkpoint's tensors rest; rounded first to the dtype they are `stored` in."""
    model = weightless_model(checkpoint, dtype)
    place = torch.device(checkpoint.store.device)
    for name, buffer in model.named_buffers():
        owner, _, own = name.rpartition(".")
        model.get_submodule(owner)._buffers[own] = buffer.to(place)
    for name, module in model.named_modules():
        if module._parameters:
            module.register_forward_pre_hook(
                partial(_fetch, checkpoint=checkpoint, name=name, dtype=dtype, stored=stored)
            )
            module.register_forward_hook(_drop)
    return model


def weightless_model(checkpoint: Checkpoint, dtype: torch.dtype) -> nn.Module:
    """As `stock_model`, with parameters that have a shape and a type, but no numbers."""
    with _without_weights():
        return build(checkpoint, dtype)


def _fetch(
    module: nn.Module, given: Any, *, checkpoint: Checkpoint, name: str, dtype: torch.dtype,
    stored: Callable[[str], torch.dtype] | None,
) -> None:  # fmt: skip
    for own, parameter in module._parameters.items():
        if parameter is not None:
            key = source_key(checkpoint.spec, f"{name}.{own}".lstrip("."))
            tensor = checkpoint.tensor(key)
            module._parameters[own] = _frozen((tensor if stored is None else _rounded(tensor, stored(key))).to(dtype))


def _rounded(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """In another dtype, also inside a forward pass that keeps to float64, where casts do nothing."""
    return torch.empty(tensor.shape, dtype=dtype, device=tensor.device).copy_(tensor)


def _drop(module: nn.Module, given: Any, result: Any) -> None:
    for own, parameter in module._parameters.items():
        if parameter is not None:
            module._parameters[own] = _frozen(parameter.to("meta"))


def _frozen(tensor: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(tensor, requires_grad=False)


@contextmanager
def _without_weights() -> Iterator[None]:
    """Parameters that are registered meanwhile have a shape and a type, but no numbers; buffers are as ever."""
    register = nn.Module.register_parameter

    def registered(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        register(module, name, None if parameter is None else _frozen(parameter.to("meta")))

    with patch.object(nn.Module, "register_parameter", registered):
        yield
