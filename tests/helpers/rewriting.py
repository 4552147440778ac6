"""Models for rewrites, with every bias there can be; what is set in them, and what a refusal must say."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from onebasin import Checkpoint
from onebasin.canonical import rewrites
from onebasin.errors import NotExpressible

SETTINGS = {
    "attention_bias": True,
    "mlp_bias": True,
    "qkv_bias": True,
    "hidden_act": "gelu",
    "activation_function": "gelu",
}


def setter(**values: Callable[[torch.Tensor], None] | float) -> Callable[[torch.nn.Module], None]:
    """Change parameters by the end of their name, with __ for a dot: `setter(ln_f__weight=1.3)`."""

    def change(model: torch.nn.Module) -> None:
        for ending, value in values.items():
            found = [p for n, p in model.named_parameters() if n.endswith(ending.replace("__", "."))]
            assert found
            for p in found:
                value(p) if callable(value) else p.fill_(value)

    return change


def refusal(rewrite: Callable[..., Checkpoint], *args) -> NotExpressible:
    with pytest.raises(NotExpressible) as caught:
        rewrite(*args)
    assert caught.value.next_step
    return caught.value


def fold_gain(checkpoint: Checkpoint, name: str) -> Checkpoint:
    """One gain folded, or the refusal raised."""
    found, refused = rewrites.fold_gains(checkpoint, [name])
    if refused:
        raise refused[0]
    return found


def folded(checkpoint: Checkpoint) -> Checkpoint:
    for norm in checkpoint.spec.norms.values():
        if not norm.blocked:
            checkpoint = fold_gain(checkpoint, norm.name)
    return checkpoint
