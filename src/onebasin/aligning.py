"""From two checkpoints to one basis: canonical forms, a matching method, and the gauge the result is written in."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from onebasin.alignment import Alignment, transport
from onebasin.canonical.form import canonicalize
from onebasin.canonical.gauge import in_gauge_of
from onebasin.checkpoint import Checkpoint
from onebasin.compatibility import obstacles
from onebasin.errors import Incompatible, NotExpressible, OnebasinError
from onebasin.landscape import FactorPath
from onebasin.match import ActivationMatching, Matched, Pair, WeightMatching, match_activations, match_weights
from onebasin.stock import stock_model
from onebasin.widening.pair import growth, one_size
from onebasin.widening.widen import to_one_size

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
    weight: WeightMatching | None = None,
    activation: ActivationMatching | None = None,
    batches: Batches | None = None,
    device: torch.device | str = "cpu",
    tick: Callable[[str], None] = lambda step: None,
) -> Aligned:
    """Bring `b` into the basis of `a`.  "weight" needs no data; "activation" needs `batches` of unlabelled inputs.

    `weight` holds the options of the method "weight", such as one of `onebasin.match.PRESETS`; `activation` those of
    the other.
    """
    check_pair(a, b)
    tick("canonical forms")
    form_a, form_b = (form.in_memory() for form in same_form(a, b))
    matched = match_forms(
        form_a, form_b, method=method, weight=weight, activation=activation, batches=batches, device=device, tick=tick
    )
    (first, second), reason = in_one_gauge(a, (form_a, transport(form_b, matched.alignment)))
    return Aligned(first, second, matched, reason)


def match_forms(
    form_a: Checkpoint,
    form_b: Checkpoint,
    start: Alignment | None = None,
    *,
    method: str = "weight",
    weight: WeightMatching | None = None,
    activation: ActivationMatching | None = None,
    batches: Batches | None = None,
    device: torch.device | str = "cpu",
    tick: Callable[[str], None] = lambda step: None,
) -> Matched:
    """The alignment of one canonical form with another.  By weights it goes on from `start`, where that is given."""
    pair = Pair.of(form_a, form_b, device)
    if method == "weight":
        matched = match_weights(pair, weight, tick, start)
    elif method == "activation" and batches is not None:
        models = [stock_model(form, torch.float32).to(device) for form in (form_a, form_b)]
        moved = ({name: x.to(device) for name, x in batch.items()} for batch in batches)
        matched = match_activations(pair, models[0], models[1], moved, activation, tick)
    else:
        raise OnebasinError(
            f"Method {method!r} cannot run",
            expected=f"one of {', '.join(METHODS)}",
            found=method,
            next_step="give unlabelled inputs (--task) for the method 'activation'",
        )
    return Matched(matched.alignment.to("cpu"), matched.distances, matched.converged)


def in_one_gauge(
    a: Checkpoint, forms: Sequence[Checkpoint], reason: str | None = None
) -> tuple[tuple[Checkpoint, ...], str | None]:
    """`a` as it is and the others in its gauge, of canonical `forms` in one basis, the first that of `a`.

    Where one cannot be written so, or for a `reason` that is known already, all canonical forms and the reason.
    """
    if reason is None and not one_size(a.spec, forms[0].spec):
        reason = f"the reference is widened, {growth(a.spec, forms[0].spec)}"
    if reason is None:
        try:
            return (a, *(in_gauge_of(a, form) for form in forms[1:])), None
        except NotExpressible as found:
            reason = found.what
    return tuple(forms), reason


def check_pair(a: Checkpoint, b: Checkpoint, name: str = "B") -> None:
    """Refuse two models that have no common basis; warn of what can be dealt with.  `name` is what `b` is called."""
    for found in obstacles(a, b):
        if found.blocks:
            raise Incompatible(
                f"The two models have no basis in common: {found.what} differs",
                expected=f"{found.a} (A)",
                found=f"{found.b} ({name})",
                next_step=found.next_step,
            )
        warnings.warn(f"{found.what}: {found.a} in A, {found.b} in {name}; {found.next_step}", stacklevel=3)


def same_form(*models: Checkpoint) -> tuple[Checkpoint, ...]:
    """Canonical forms of one size, the smaller widened; they must have reached the same families."""
    first, *others = forms = to_one_size(*(canonicalize(model).checkpoint for model in models))
    for space, other in product(first.spec.spaces, others):
        families = first.spec.family(space), other.spec.family(space)
        if families[0] != families[1]:
            raise Incompatible(
                "The models do not have the same symmetries",
                space=space,
                expected=families[0],
                found=families[1],
                next_step="one of them has gains that cannot be folded: see `onebasin verify` on each",
            )
    return forms
