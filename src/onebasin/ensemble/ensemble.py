"""Ensemble: two models or more that can be brought into one basis, with their canonical forms of one size.

Everything that a method needs to know of its models is found here, once: whether they go together, what each is in
canonical form, and how the smaller ones are widened.  Two models are M = 2.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import torch
from torch import Tensor

from onebasin.canonical.form import canonicalize
from onebasin.canonical.gauge import in_gauge_of
from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.model import constant
from onebasin.ensemble.compatibility import obstacles
from onebasin.ensemble.emphasis import balance
from onebasin.ensemble.words import letter
from onebasin.errors import Incompatible, NotExpressible
from onebasin.labels.pairs import in_one_labelling, is_cut
from onebasin.spec import ModelSpec
from onebasin.widening.pair import growth, one_size
from onebasin.widening.widen import Fills, widen_forms


@dataclass(frozen=True)
class Ensemble:
    """`models` with the labels of the first, and their canonical `forms`, which have one size; lazily, leaf by leaf.

    `tables` are those of the forms before the smaller ones were widened; `fills` say what their additional units and
    heads are, where that is not nothing.
    """

    models: tuple[Checkpoint, ...]
    forms: tuple[Checkpoint, ...]
    tables: tuple[ModelSpec, ...]
    fills: tuple[Fills, ...] = ()

    @classmethod
    def of(cls, models: Sequence[Checkpoint]) -> Ensemble:
        """Check the models against the first, and make them canonical; models without a common basis are refused."""
        check_models(models)
        return cls.of_checked(in_one_labelling(models))

    @classmethod
    def of_checked(cls, models: Sequence[Checkpoint]) -> Ensemble:
        """The ensemble of models that `check_models` has seen, and `in_one_labelling` has made."""
        narrow = tuple(canonicalize(model).checkpoint for model in models)
        forms = widen_forms(narrow)
        check_families(forms)
        return cls(tuple(models), forms, tuple(form.spec for form in narrow))

    def __len__(self) -> int:
        return len(self.models)

    @property
    def spec(self) -> ModelSpec:
        """The table that all forms share."""
        return self.forms[0].spec

    @property
    def widened(self) -> bool:
        """Whether some of the models are smaller than others."""
        return any(form.spec is not table for form, table in zip(self.forms, self.tables, strict=True))

    @cached_property
    def emphasis(self) -> dict[str, float]:
        """How much each leaf counts in a distance: as in balanced matching of the first form with itself."""
        return balance(self.forms[0], self.forms[0])

    def distance(self, b: Checkpoint) -> float:
        """√(Σ w |A − B|² / Σ w |A|²) of the first form A and another B: the one meaning of a distance of weights.

        0 for the same weights, about √2 for weights of one size that have nothing in common.
        """
        apart, size = 0.0, 0.0
        for name, x in ((name, self.forms[0][name]) for name in self.forms[0]):
            apart += self.emphasis[name] * float((x - b[name]).square().sum())
            size += self.emphasis[name] * float(x.square().sum())
        return math.sqrt(apart / size) if apart else 0.0

    def centre(self, members: Sequence[Checkpoint]) -> tuple[Checkpoint, float]:
        """(U = mean of the members, Σ_m w |U − θ_m|²) in one pass: beside U, one leaf of one model is in memory.

        The sum of squares runs along with the mean (Welford), which loses no digits where the members are close.
        """
        mean: dict[str, Tensor] = {}
        total = 0.0
        for name in members[0]:
            mean[name] = members[0][name].clone()
            for count, member in enumerate(members[1:], 2):
                x = member[name]
                step = x - mean[name]
                mean[name] += step / count
                total += self.emphasis[name] * float((step * (x - mean[name])).sum())
        return members[0].derive({name: constant(x) for name, x in mean.items()}), total

    def in_one_gauge(
        self, forms: Sequence[Checkpoint], reason: str | None = None
    ) -> tuple[tuple[Checkpoint, ...], str | None]:
        """The first model as it is and the others in its gauge, of canonical `forms` in one basis.

        Where one cannot be written so, or for a `reason` that is known already, all forms and the reason.
        """
        if reason is None and not one_size(self.models[0].spec, self.spec):
            reason = f"the reference is widened, {growth(self.models[0].spec, self.spec)}"
        if reason is None and is_cut(self.models[0]):
            reason = "the reference has lost positions"
        if reason is None:
            try:
                return (self.models[0], *(in_gauge_of(self.models[0], form) for form in forms[1:])), None
            except NotExpressible as refusal:
                reason = refusal.what
        return tuple(forms), reason

    @contextmanager
    def resting(self, device: torch.device | str, room: float = 0) -> Iterator[None]:
        """Meanwhile the tensors of all models are on `device`, and up to `room` bytes of what was read stay there.

        On the CPU nothing stays: the system keeps files that were read.  Models that are widened are made there.
        """
        place = torch.device("cpu" if self.widened else device)
        with ExitStack() as stack:
            for model in self.models:
                stack.enter_context(model.store.resting(place, 0 if place.type == "cpu" else room / len(self)))
            yield

    def filled(self, fills: Sequence[Fills]) -> Ensemble:
        """The same models, the smaller ones widened with these in place of nothing."""
        narrow = [canonicalize(model).checkpoint for model in self.models]
        return replace(self, forms=widen_forms(narrow, fills), fills=tuple(fills))

    def form_of(self, model: Checkpoint, which: int = 1) -> Checkpoint:
        """Another model like model `which` in canonical form and of the common size, such as a later checkpoint."""
        check_pair(self.models[0], model, "the other model")
        first, model = in_one_labelling((self.models[0], model))
        if first is not self.models[0]:
            step = "align the model itself, with the others"
            raise Incompatible("The other model has fewer positions than the models it goes with", next_step=step)
        fills = ({}, self.fills[which]) if self.fills else ()
        _, form = widen_forms((self.forms[0], canonicalize(model).checkpoint), fills)
        check_families((self.forms[0], form))
        return form


def check_models(models: Sequence[Checkpoint]) -> list[str]:
    """Refuse models that have no basis in common with the first, from headers and configurations alone.

    Returns what differs and can be dealt with, which is warned of as well.
    """
    if len(models) < 2:
        raise Incompatible("It takes two models or more", expected=2, found=len(models), next_step="give another")
    notes = []
    for i, model in enumerate(models[1:], 1):
        notes += check_pair(models[0], model, letter(i))
    return notes


def check_pair(a: Checkpoint, b: Checkpoint, name: str = "B") -> list[str]:
    """Refuse two models that have no common basis; warn of what can be dealt with.  `name` is what `b` is called."""
    notes = []
    for obstacle in obstacles(a, b):
        if obstacle.blocks:
            raise Incompatible(
                f"The two models have no basis in common: {obstacle.what} differs",
                expected=f"{obstacle.a} (A)",
                found=f"{obstacle.b} ({name})",
                next_step=obstacle.next_step,
            )
        text = f"{obstacle.what}: {obstacle.a} in A, {obstacle.b} in {name}; {obstacle.next_step}"
        warnings.warn(text, stacklevel=4)
        notes.append(text)
    return notes


def check_families(forms: Sequence[Checkpoint]) -> None:
    """Canonical forms must have reached the same families."""
    first, *others = forms
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
