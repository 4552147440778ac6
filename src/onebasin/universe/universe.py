"""Universe: one alignment per model into a common frame (P1, section 3.7).

The map from model p to model q is π_q⁻¹ π_p, so that every cycle closes: p to q, q to r and r to p is the identity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from onebasin.aligning import Aligned, check_pair, in_one_gauge, match_forms, same_form
from onebasin.alignment import Alignment, transport
from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.model import constant
from onebasin.errors import Incompatible
from onebasin.landscape.paths import check_same_tensors
from onebasin.match import Matched, Pair
from onebasin.match.blocks import block_weights
from onebasin.widening.pair import growth, one_size

Match = Callable[[Checkpoint, Checkpoint, Alignment | None], Matched]
"""ALIGN(reference, model, where to go on from), of canonical forms."""


@dataclass(frozen=True)
class Universe:
    """`alignments[m]` takes the canonical form of model m into the frame, which is the basis of the first model.

    `objective` is Σ_m |U − π_m(θ_m)|² with U = mean of π_m(θ_m): before, and after every round that was taken, with
    the blocks weighed as in matching.  `matches` counts the alignments of two models that were made for it.
    """

    models: tuple[Checkpoint, ...]
    forms: tuple[Checkpoint, ...]
    alignments: tuple[Alignment, ...]
    objective: tuple[float, ...] = ()
    matches: int = 0
    settled: bool = True

    def members(self) -> list[Checkpoint]:
        """Every model's canonical form in the frame; lazily, leaf by leaf."""
        return [transport(form, g) for form, g in zip(self.forms, self.alignments, strict=True)]

    def between(self, p: int, q: int) -> Alignment:
        """The map π_q⁻¹ π_p from model p to model q."""
        return self.alignments[q].inverse().compose(self.alignments[p])

    def ordered(self, *members: int) -> Universe:
        """These members in this order, in the basis of the first of them."""
        alignments = tuple(self.between(m, members[0]) for m in members)
        models, forms = (tuple(given[m] for m in members) for given in (self.models, self.forms))
        return replace(self, models=models, forms=forms, alignments=alignments)

    def moved(self, alignments: Sequence[Alignment]) -> Universe:
        """The same models by other maps."""
        by = replace(self, alignments=tuple(alignments))
        return replace(by, objective=(centre(by.members(), weights_of(self.forms[0]))[1],))

    def add(self, model: Checkpoint, match: Match = match_forms) -> Universe:
        """The universe with one more model, at the cost of one alignment: with the mean of those that are there."""
        forms, before = common_forms([*self.models, model]), self.forms[0].spec
        if not one_size(before, forms[0].spec):
            step = "align all models anew, without --universe"
            found = growth(before, forms[0].spec)
            raise Incompatible("The universe is too small for the new model", found=found, next_step=step)
        mean, _ = centre(self.members(), weights_of(self.forms[0]))
        new = match(mean, forms[-1], None).alignment
        grown = replace(self, models=(*self.models, model), forms=forms, matches=self.matches + 1)
        return grown.moved([*self.alignments, new])

    def aligned(self) -> tuple[Aligned, ...]:
        """The first model with each of the others, in the first one's basis and gauge where that can be written."""
        members, weight = (self.forms[0], *self.members()[1:]), weights_of(self.forms[0])
        (first, *others), reason = in_one_gauge(self.models[0], members)
        found = []
        for form, moved, g, other in zip(self.forms[1:], members[1:], self.alignments[1:], others, strict=True):
            distances = tuple(distance(self.forms[0], x, weight) for x in (form, moved))
            found.append(Aligned(first, other, Matched(g, distances, self.settled), reason))
        return tuple(found)


def common_forms(models: Sequence[Checkpoint]) -> tuple[Checkpoint, ...]:
    """Canonical forms, of one size, of models that have one basis in common; others are refused."""
    if len(models) < 2:
        step = "give two models or more"
        raise Incompatible(
            "A universe has more than one model", expected="2 or more", found=len(models), next_step=step
        )
    for i, model in enumerate(models[1:], 1):
        check_pair(models[0], model, called(i))
    forms = same_form(*models)
    for form in forms[1:]:
        check_same_tensors(forms[0], form)
    return forms


def as_they_are(models: Sequence[Checkpoint]) -> Universe:
    """The universe of identities: nothing is aligned yet."""
    forms = common_forms(models)
    return Universe(tuple(models), forms, tuple(Alignment.identity(form.spec) for form in forms))


def called(i: int) -> str:
    """A, B, C, ...: what the i-th model is called; numbers when the letters are used up."""
    return chr(ord("A") + i) if i < 26 else str(i + 1)


def weights_of(form: Checkpoint) -> dict[str, float]:
    """How much each leaf counts: as in balanced matching of the form with itself."""
    tensors = {name: form[name] for name in form}
    return block_weights(Pair(form.spec, tensors, tensors), "balanced")


def centre(members: Sequence[Checkpoint], weight: Mapping[str, float]) -> tuple[Checkpoint, float]:
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
            total += weight[name] * float((step * (x - mean[name])).sum())
    return members[0].derive({name: constant(x) for name, x in mean.items()}), total


def distance(a: Checkpoint, b: Checkpoint, weight: Mapping[str, float]) -> float:
    """Σ w |A − B|²."""
    return sum(weight[name] * float((a[name] - b[name]).square().sum()) for name in a)
