"""Activations of two models on the same inputs, summed into second moments as they stream by.

Every linear map of the table is a place to look: what it reads, split into the table's axes.  What a covector axis
reads is a vector of the space itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn

from onebasin.checkpoint.stock import modules_of
from onebasin.errors import BadCheckpoint
from onebasin.match.moments import Moment
from onebasin.spec import Linear, ModelSpec
from onebasin.spec.leaves import letters


def _flat(spec: ModelSpec, linear: Linear, x: Tensor) -> Tensor:
    """What the linear map reads, (..., width), as (samples, features in the order of the table's axes)."""
    sizes = {letter: size for letter, size in spec.leaves[linear.weight].view.sizes if letter in letters(linear.reads)}
    order = " ".join(letters(linear.reads))
    return rearrange(x.flatten(0, -2), f"s {linear.reads} -> s ({order})", **sizes)


@contextmanager
def watching(model: nn.Module, spec: ModelSpec, linears: Iterable[str]) -> Iterator[dict[str, Tensor]]:
    """While open, every forward pass leaves in the yielded dict what each of `linears` read."""
    seen: dict[str, Tensor] = {}
    modules = modules_of(model, spec)

    def keep(name: str, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        seen[name] = _flat(spec, spec.linears[name], inputs[0].detach())

    handles = [
        modules[spec.leaves[spec.linears[name].weight].key].register_forward_pre_hook(partial(keep, name))
        for name in linears
    ]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def activation_moments(
    a: nn.Module, b: nn.Module, spec: ModelSpec, batches: Iterable[Mapping[str, Tensor]], linears: Iterable[str]
) -> tuple[dict[str, Moment], int]:
    """For each of `linears`, the mean over samples of x_A x_Bᵀ, x_A x_Aᵀ, x_B x_Bᵀ; and the number of samples."""
    names, count = list(linears), 0
    sums: dict[str, Moment] = {}
    with watching(a, spec, names) as seen_a, watching(b, spec, names) as seen_b:
        for batch in batches:
            a(**batch)
            b(**batch)
            for name in names:
                x, y = (seen[name].mT.to(torch.float64) for seen in (seen_a, seen_b))
                new = Moment.of(x, y)
                if not new.cross.isfinite().all():
                    raise BadCheckpoint(
                        "An activation is not finite on these inputs",
                        tensor=f"the input of {name}",
                        next_step="check the inputs, or run the models in float32",
                    )
                sums[name] = sums[name] + new if name in sums else new
            count += seen_a[names[0]].shape[0]
    return {name: moment * (1 / count) for name, moment in sums.items()}, count
