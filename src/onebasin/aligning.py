"""From two checkpoints to one basis: canonical forms, a matching method, and the gauge the result is written in."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from onebasin.alignment import Alignment, transport
from onebasin.canonical.form import canonicalize
from onebasin.canonical.gauge import in_gauge_of
from onebasin.checkpoint import Checkpoint
from onebasin.compatibility import obstacles
from onebasin.errors import Incompatible, NotExpressible, OnebasinError
from onebasin.landscape import FactorPath
from onebasin.match import Matched, Pair, match_activations, match_weights
from onebasin.stock import stock_model

METHODS = ("weight", "activation")
Batches = Iterable[Mapping[str, Tensor]]


@dataclass(frozen=True)
class Aligned:
    """Two checkpoints whose tensors can be averaged entry by entry.

    `a` is the reference as it was, and `b` the other model in its basis and gauge.  Where that cannot be written
    (`reason` says why), both are in canonical form.
    """

    a: Checkpoint
    b: Checkpoint
    matched: Matched
    reason: str | None = None

    @property
    def alignment(self) -> Alignment:
        return self.matched.alignment

    def midpoint(self, weight: float = 0.5) -> Checkpoint:
        """(1 − weight) · A + weight · B, a stock checkpoint."""
        return FactorPath(self.a, self.b).at(weight)


def align(
    a: Checkpoint,
    b: Checkpoint,
    method: str = "weight",
    *,
    batches: Batches | None = None,
    device: torch.device | str = "cpu",
    tick: Callable[[str], None] = lambda step: None,
) -> Aligned:
    """Bring `b` into the basis of `a`.  "weight" needs no data; "activation" needs `batches` of unlabelled inputs."""
    check_pair(a, b)
    tick("canonical forms")
    form_a, form_b = same_form(a, b)
    pair = Pair.of(form_a, form_b, device)
    if method == "weight":
        matched = match_weights(pair, tick=tick)
    elif method == "activation" and batches is not None:
        models = [stock_model(form, torch.float32).to(device) for form in (form_a, form_b)]
        moved = ({name: x.to(device) for name, x in batch.items()} for batch in batches)
        matched = match_activations(pair, models[0], models[1], moved, tick=tick)
    else:
        raise OnebasinError(
            f"Method {method!r} cannot run",
            expected=f"one of {', '.join(METHODS)}",
            found=method,
            next_step="give unlabelled inputs (--task) for the method 'activation'",
        )
    alignment = matched.alignment.to("cpu")
    matched = Matched(alignment, matched.distances, matched.converged)
    return in_gauge(a, form_a, transport(form_b, alignment), matched)


def in_gauge(a: Checkpoint, form_a: Checkpoint, moved_b: Checkpoint, matched: Matched) -> Aligned:
    """Canonical `moved_b` in the gauge of `a`, or both in canonical form where that cannot be written."""
    try:
        return Aligned(a, in_gauge_of(a, moved_b), matched)
    except NotExpressible as reason:
        return Aligned(form_a, moved_b, matched, reason.what)


def check_pair(a: Checkpoint, b: Checkpoint) -> None:
    """Refuse two models that have no common basis; warn of what can be dealt with."""
    for found in obstacles(a, b):
        if found.blocks:
            raise Incompatible(
                f"The models cannot be aligned: {found.what} differs",
                expected=f"{found.a} (A)",
                found=f"{found.b} (B)",
                next_step=found.next_step,
            )
        warnings.warn(f"{found.what}: {found.a} in A, {found.b} in B; {found.next_step}", stacklevel=3)


def same_form(a: Checkpoint, b: Checkpoint) -> tuple[Checkpoint, Checkpoint]:
    """Canonical forms in memory; the two must have reached the same families."""
    form_a, form_b = (canonicalize(c).checkpoint.in_memory() for c in (a, b))
    for space in form_a.spec.spaces:
        families = form_a.spec.family(space), form_b.spec.family(space)
        if families[0] != families[1]:
            raise Incompatible(
                "The two models do not have the same symmetries",
                space=space,
                expected=families[0],
                found=families[1],
                next_step="one of them has gains that cannot be folded: see `onebasin verify` on each",
            )
    return form_a, form_b
