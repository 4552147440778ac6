"""Activations of two models on the same inputs, summed up as they stream by.

Every linear map of the table is a place to look: what it reads, split into the table's axes.  What a covector axis
reads is a vector of the space itself.  No sum is larger than n × n, and no activation waits for the next batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn

from onebasin.checkpoint.stock import modules_of
from onebasin.errors import BadCheckpoint
from onebasin.match.moments import Overlap
from onebasin.spec import Linear, ModelSpec
from onebasin.spec.leaves import letters

Batch = Mapping[str, Tensor]


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


@dataclass
class Seen:
    """What two models said on `samples` vectors: Σ x_A x_Bᵀ of every stream, over all its places; overlaps of units."""

    streams: dict[str, Tensor] = field(default_factory=dict)
    units: dict[str, Overlap] = field(default_factory=dict)
    samples: int = 0


@torch.no_grad()
def look(
    a: nn.Module, b: nn.Module, spec: ModelSpec, batches: Iterable[Batch],
    streams: Mapping[str, Collection[str]], units: Mapping[str, str],
) -> Seen:  # fmt: skip
    """Sum up what `streams` (space -> linear maps that read it) and `units` (space -> the one that reads them) say."""
    places = dict.fromkeys([*(name for names in streams.values() for name in names), *units.values()])
    seen = Seen()
    with watching(a, spec, places) as of_a, watching(b, spec, places) as of_b:
        for batch in batches:
            a(**batch)
            b(**batch)
            for space, names in streams.items():
                for name in names:
                    x, y = _columns(name, of_a, of_b)
                    known = seen.streams.setdefault(space, x.new_zeros(len(x), len(y)))
                    known.addmm_(x, y.mT)
            for space, name in units.items():
                new = Overlap.of(*_columns(name, of_a, of_b))
                seen.units[space] = seen.units[space] + new if space in seen.units else new
            seen.samples += len(next(iter(of_a.values())))
    return seen


def _columns(name: str, of_a: Mapping[str, Tensor], of_b: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """What both models said at one place, in float64: (features, samples)."""
    x, y = (seen[name].mT.to(torch.float64) for seen in (of_a, of_b))
    if not (x.isfinite().all() and y.isfinite().all()):
        raise BadCheckpoint(
            "An activation is not finite on these inputs",
            tensor=f"the input of {name}",
            next_step="check the inputs, or run the models in float32",
        )
    return x, y
