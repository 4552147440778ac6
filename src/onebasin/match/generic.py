"""Whether a model has the symmetries of its table and no others (second paper, theorem 2.1).

The group of attention is complete for almost every model: where all directions inside heads are used, and no two heads
of a layer do the same.  Of a model with a direction that nothing passes, or with twin heads, more changes leave the
outputs as they are; maps are not determined there, and alignments less sure.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from onebasin.checkpoint import Checkpoint
from onebasin.match.circuits import Circuits, circuits_of, inner_spaces
from onebasin.match.heads import frobenius_squared
from onebasin.match.pair import Pair


@dataclass(frozen=True)
class Heads:
    """The heads of one layer, in a space `heads`.

    `weakest`: of the directions inside a head the least against the greatest, in queries, keys, values and outputs.
    `closest`: how far the two nearest heads are apart, |E − E'| / √(|E|² + |E'|²): 1 where they have nothing in common;
    nothing where there is one head.
    """

    heads: str
    weakest: float
    closest: float | None


def heads_of(form: Checkpoint) -> list[Heads]:
    """Every layer of a canonical form, one in memory at a time."""
    return [_layer(form, space) for space in form.spec.spaces if space in form.spec.heads]


def describe_heads(form: Checkpoint) -> dict[str, Any] | None:
    """The layer with the weakest direction and the one with the closest heads, as plain data."""
    layers = heads_of(form)
    if not layers:
        return None
    paired = [layer for layer in layers if layer.closest is not None]
    weakest, closest = min(layers, key=lambda x: x.weakest), min(paired, key=lambda x: x.closest or 0.0, default=None)
    return {"weakest": asdict(weakest), "closest": None if closest is None else asdict(closest)}


def _layer(form: Checkpoint, heads: str) -> Heads:
    spec, inside = form.spec, inner_spaces(form.spec, heads)
    pair = Pair.of(form, form, names={leaf.name for inner in inside for leaf in spec.touching[inner]})
    found = [circuits_of(pair, {}, inner, of_b=False) for inner in inside]
    sides = [_spread(x, circuits) for circuits in found for x in (circuits.left, circuits.right)]
    return Heads(heads, min(sides, default=1.0), _closest(found))


def _spread(x: Tensor, circuits: Circuits) -> float:
    """The least direction by the greatest, of all heads (h, g, d, F) the worst; frequency pairs have one each."""
    sizes = x.abs().square().sum(-1).sqrt() if circuits.rotary else torch.linalg.svdvals(x)
    return float((sizes.amin(-1) / sizes.amax(-1).clamp_min(torch.finfo(torch.float64).tiny)).min())


def _closest(found: list[Circuits]) -> float | None:
    between = torch.stack([frobenius_squared(x, x) for x in found]).sum(0).flatten(2).flatten(0, 1)
    square = torch.stack([x.square for x in found]).sum(0).flatten()
    if len(square) < 2:
        return None
    apart = between / (square[:, None] + square).clamp_min(torch.finfo(torch.float64).tiny)
    return float(apart.fill_diagonal_(torch.inf).min().clamp_min(0).sqrt())
