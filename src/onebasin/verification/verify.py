"""Verify the library's central promise on a given checkpoint: its symmetries do not move its outputs.

Draw a random symmetry in every space at once, move the canonical form by it, run both models and compare.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from onebasin.alignment import Alignment, transport
from onebasin.canonical.form import canonicalize
from onebasin.checkpoint import DTYPES, Checkpoint
from onebasin.checkpoint.stock import outputs, probe_inputs
from onebasin.checkpoint.streamed import streamed_model
from onebasin.spec import ModelSpec
from onebasin.widening.pair import one_size
from onebasin.widening.widen import embedded_outputs

PROMISE = 1e-9  # largest float64 drift, relative to the size of the outputs where that exceeds one


def keeps_promise(drift: float, scale: float) -> bool:
    """Whether a drift in float64 is small beside outputs of size `scale`; what is not finite never is."""
    return math.isfinite(scale) and drift <= PROMISE * max(1.0, scale)


class Drifts(NamedTuple):
    """By dtype (float64, float32, those of the files): how far a moved model is from the original, and rounding alone.

    `scale` is the size of the original's outputs in float64, `reference`.
    """

    drift: dict[str, float]
    rounding: dict[str, float]
    scale: float
    reference: Mapping[str, Tensor]


@dataclass(frozen=True, repr=False)
class Verification:
    """Largest output differences.  `drift[dtype]` is the moved model in that dtype against the original in float64;
    `rounding[dtype]` is the original itself in that dtype, the floor that rounding alone sets.  `per_space` is each
    kind of space alone (`layers.*.ffn`), and each of its spaces where the kind drifts too far."""

    drift: dict[str, float]
    rounding: dict[str, float]
    per_space: dict[str, float]
    displacement: dict[str, float]
    scale: float
    refused: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return keeps_promise(max(self.drift["float64"], *self.per_space.values()), self.scale)

    def __repr__(self) -> str:
        each = (f"{value:.1e} in {kind} ({self.rounding[kind]:.1e})" for kind, value in self.drift.items())
        verdict = "the promise holds" if self.holds else "the promise IS BROKEN"
        return (
            f"Verification: {verdict}; output drift (rounding alone) {', '.join(each)}; outputs up to {self.scale:.3g}"
        )


def output_drift(
    moved: Mapping[str, Tensor], original: Mapping[str, Tensor], spec: ModelSpec, alignment: Alignment
) -> float:
    """max |moved − original|, where an output that lives in a space is first moved along with that space."""
    worst = 0.0
    for name, axis in spec.outputs.items():
        expected = original[name]
        if axis is not None and axis.space in alignment.maps:
            expected = alignment[axis.space].act(expected, -1, axis.rep)
        difference = (moved[name] - expected).abs().max()
        worst = max(worst, float(difference.nan_to_num(nan=torch.inf)))
    return worst


def size_of(found: Mapping[str, Tensor]) -> float:
    """The largest output."""
    return max(float(x.abs().max()) for x in found.values())


def drifts(
    original: Checkpoint, moved: Checkpoint, alignment: Alignment, *, table: ModelSpec | None = None, seed: int = 0
) -> Drifts:
    """Run both models on the same inputs in each dtype.

    `table` is that of the original in canonical form; it is used where `moved` is a larger model.
    """
    spec, inputs = moved.spec, probe_inputs(moved.spec, seed=seed)

    def outputs_of(model: Checkpoint, dtype: torch.dtype) -> dict[str, Tensor]:
        return outputs(streamed_model(model, dtype), spec, inputs, model.store.device)

    def run(dtype: torch.dtype) -> dict[str, Tensor]:
        found = outputs_of(original, dtype)
        if one_size(original.spec, spec):
            return found
        return embedded_outputs(table or canonicalize(original).checkpoint.spec, spec, found)

    reference = run(torch.float64)
    stored = {DTYPES[code].name for _, code in original.stored.values()}
    drift, rounding = {}, {}
    for kind in sorted({"float64", "float32", *stored}, key=["float64", "float32", "bfloat16", "float16"].index):
        dtype = getattr(torch, kind)
        drift[kind] = output_drift(outputs_of(moved, dtype), reference, spec, alignment)
        rounded = reference if dtype == torch.float64 else run(dtype)
        rounding[kind] = output_drift(rounded, reference, spec, alignment.only())
    return Drifts(drift, rounding, size_of(reference), reference)


def verify(checkpoint: Checkpoint, *, seed: int = 0, tick: Callable[[str], None] = lambda step: None) -> Verification:
    """Measure how far random symmetries move the outputs: all spaces together, each kind alone over all layers, and,
    where a kind breaks the promise, each of its spaces."""
    tick("reading weights")
    canonical = canonicalize(checkpoint)
    form = canonical.checkpoint.kept_if_small()
    spec, inputs = form.spec, probe_inputs(form.spec, seed=seed)
    alignment = Alignment.random(spec, seed)
    tick("all spaces at once")
    moved = transport(form, alignment).kept_if_small()
    drift, rounding, scale, original = drifts(checkpoint, moved, alignment, seed=seed)

    def moved_by(*spaces: str) -> float:
        one = alignment.only(*spaces)
        return output_drift(outputs(streamed_model(transport(form, one)), spec, inputs), original, spec, one)

    far, per_space, displacement = alignment.displacement(), {}, {}
    for kind, spaces in spec.kinds.items():
        tick(kind)
        per_space[kind], displacement[kind] = moved_by(*spaces), max(far[space] for space in spaces)
        if len(spaces) > 1 and not keeps_promise(per_space[kind], scale):
            per_space |= {space: moved_by(space) for space in spaces}
            displacement |= {space: far[space] for space in spaces}
    refused = tuple(str(reason) for reason in canonical.refused)
    return Verification(drift, rounding, per_space, displacement, scale, refused)
