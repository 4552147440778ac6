"""Activation matching: bases from what flows through the models on unlabelled inputs.

The residual stream is rotated by Procrustes over every place where it is read, Σ |x_A − Q x_B|².  With the stream in
place, heads and the maps inside them follow from weights, which proved better than matching them by their outputs;
hidden units follow from both (see docs/decisions/0007).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from onebasin.alignment import Alignment
from onebasin.families import Rep
from onebasin.linalg.workers import Workers
from onebasin.maps import map_of
from onebasin.match.ascent import Ascent
from onebasin.match.moments import weight_moments
from onebasin.match.options import ActivationMatching
from onebasin.match.pages import Pages
from onebasin.match.probes import activation_moments
from onebasin.match.strategy import Strategy, equal
from onebasin.match.units import match_units
from onebasin.match.weights import Matched, Tick
from onebasin.spec import ModelSpec


def stream_readers(spec: ModelSpec) -> dict[str, list[str]]:
    """Space -> one reader of each norm on it, and of each block that reads it raw: together they see it everywhere."""
    found: dict[str, list[str]] = {}
    for norm in spec.norms.values():
        readers = [x for x in spec.readers(norm.name) if " " not in x.reads]  # one vector of the stream at a time
        if readers:
            found.setdefault(norm.space, []).append(readers[0].name)
    for space in spec.streams:
        blocks = {reader.name.rpartition(".")[0]: reader.name for reader in spec.raw_readers(space)}
        if blocks:
            found.setdefault(space, []).extend(blocks.values())
    return found


def unit_readers(spec: ModelSpec) -> dict[str, str]:
    """Space of hidden units -> the linear map that reads them."""
    return {
        axis.space: linear.name
        for linear in spec.linears.values()
        for _, axis in spec.leaves[linear.weight].spaces()
        if linear.norm is None and axis.rep is Rep.COV and spec.spaces[axis.space].base is None
        and axis.space not in spec.streams
        and not any(space.base == axis.space for space in spec.spaces.values())
    }  # fmt: skip


def match_activations(
    pages: Pages, a: nn.Module, b: nn.Module, batches: Iterable[Mapping[str, Tensor]],
    options: ActivationMatching | None = None, *, tick: Tick = lambda step: None,
) -> Matched:  # fmt: skip
    """Align B with A by activations on `batches` (inputs of stock models `a` and `b` of the canonical forms)."""
    spec, options = pages.spec, options or ActivationMatching()
    streams, units = stream_readers(spec), unit_readers(spec)
    tick("activations")
    looked_at = dict.fromkeys([*(name for names in streams.values() for name in names), *units.values()])
    moments, samples = activation_moments(a, b, spec, batches, looked_at)
    _check_samples(spec, streams, samples)
    ascent = Ascent(pages, options, Strategy(emphasis=equal, guard=False).by_factors(), Workers())
    before = ascent.total()
    for space, names in streams.items():
        cross = torch.stack([moments[x].cross for x in names]).sum(0)
        ascent.maps[space] = map_of(ascent.family[space]).project(cross.to(pages.device))
    tick("heads, the maps inside them, and units")
    for page in pages.names:
        ascent.match_heads(page, guard=False)
        ascent.match_experts(page, guard=False)
        for space in spec.spaces_of(page).intersection(ascent.units):
            weights = weight_moments(*ascent.turned(page), space, ascent.emphasis)
            fired = moments[units[space]].to(pages.device) if space in units else None
            ascent.maps[space] = match_units(ascent.family[space], weights, fired)
    return Matched(Alignment(ascent.maps, ascent.bases), (before, ascent.total()), converged=True)


def _check_samples(spec: ModelSpec, streams: Iterable[str], samples: int) -> None:
    for space in streams:
        if samples < spec.spaces[space].size:
            warnings.warn(
                f"{samples} samples cannot determine the basis of {space}: give at least {spec.spaces[space].size}",
                stacklevel=3,
            )
