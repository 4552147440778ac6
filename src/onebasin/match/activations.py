"""Activation matching: bases from what flows through the models on unlabelled inputs.

The residual stream is rotated by Procrustes over every place where it is read, Σ |x_A − Q x_B|².  With the stream in
place, heads and the maps inside them follow from weights, which proved better than matching them by their outputs;
hidden units follow from both (see docs/decisions/0007).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping

from torch import nn

from onebasin.alignment import Alignment
from onebasin.checkpoint.model import FLOAT64
from onebasin.families import Rep
from onebasin.linalg.workers import Workers
from onebasin.maps import map_of
from onebasin.match.ascent import Ascent
from onebasin.match.moments import Overlap
from onebasin.match.options import ActivationMatching
from onebasin.match.pages import Pages
from onebasin.match.probes import Batch, look
from onebasin.match.state import Names
from onebasin.match.strategy import Strategy, equal
from onebasin.match.units import solve_units_that_fired
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
    pages: Pages, a: nn.Module, b: nn.Module, batches: Callable[[], Iterable[Batch]],
    options: ActivationMatching | None = None, *, room: float = math.inf, tick: Tick = lambda step: None,
) -> Matched:  # fmt: skip
    """Align B with A by activations on `batches` (inputs of stock models `a` and `b` of the canonical forms).

    The models run once; or again for every part of the hidden units, where what they say takes more than `room` bytes.
    """
    spec, options = pages.spec, options or ActivationMatching()
    streams, readers = stream_readers(spec), unit_readers(spec)
    first, *others = in_parts(spec, readers, room)
    tick("activations")
    ascent = Ascent(pages, options, Strategy(emphasis=equal, guard=False).by_factors(), Workers())
    before = ascent.total()
    seen = look(a, b, spec, batches(), streams, first)
    _check_samples(spec, streams, seen.samples)
    for space, cross in seen.streams.items():
        ascent.maps[space] = map_of(ascent.family[space]).project(cross.to(pages.device))
    tick("heads, the maps inside them, and units")
    unseen = dict.fromkeys(space for space in ascent.units if space not in readers)
    for page in pages.names:
        ascent.match_heads(page, guard=False)
        ascent.match_experts(page, guard=False)
        _match_units(ascent, page, {**unseen, **seen.units})
    for part in others:
        fired = look(a, b, spec, batches(), {}, part).units
        for page in pages.names:
            _match_units(ascent, page, fired)
    return Matched(Alignment(ascent.maps, ascent.bases), (before, ascent.total()), converged=True)


def in_parts(spec: ModelSpec, units: Mapping[str, str], room: float) -> list[dict[str, str]]:
    """Spaces of hidden units in parts: what those of one part say takes at most `room` bytes, if they are several."""
    parts, taken = [dict[str, str]()], 0.0
    for space, name in units.items():
        size = FLOAT64 * spec.spaces[space].size ** 2
        if parts[-1] and taken + size > room:
            parts.append({})
            taken = 0.0
        parts[-1][space] = name
        taken += size
    return parts


def _match_units(ascent: Ascent, page: Names, fired: Mapping[str, Overlap | None]) -> None:
    """The hidden units of a page that are among those that `fired`; None is for those that nobody looked at."""
    for space in (x for x in ascent.units if x in fired and x in ascent.spec.spaces_of(page)):
        said = fired[space]
        ascent.maps[space] = solve_units_that_fired(
            *ascent.turned(page), space, ascent.family[space], ascent.emphasis, said and said.to(ascent.pages.device)
        )


def _check_samples(spec: ModelSpec, streams: Iterable[str], samples: int) -> None:
    for space in streams:
        if samples < spec.spaces[space].size:
            warnings.warn(
                f"{samples} samples cannot determine the basis of {space}: give at least {spec.spaces[space].size}",
                stacklevel=3,
            )
