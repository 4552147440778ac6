"""What was learned, and what it makes of the checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from onebasin.aligning import Aligned, in_one_gauge, same_form
from onebasin.alignment import Alignment, move, transport
from onebasin.canonical.rewrites import split_gain
from onebasin.checkpoint import Checkpoint
from onebasin.learn.options import LearnedMatching
from onebasin.learn.spaces import free_gains, streams
from onebasin.learn.training import Point
from onebasin.match import Matched, Pair
from onebasin.match.blocks import block_weights


@dataclass(frozen=True)
class Learned:
    """What was learned of one model: moved by `base`, then by `correction`, with its stream scaled by `scale`.

    The gains of norms are then multiplied by `gains`, and what reads them divided.

    The correction is the best on the validation task: of the midpoint, or by the law "highest" of the highest place.
    `alignment` is both in one; where permutations are soft it takes the nearest hard ones, while `correction` and
    `moved` keep the soft ones.  `frame` is how the first model moves, where it does not stay.
    `ends` are the losses of all models on the validation task when the run began.
    """

    base: Alignment
    correction: Alignment
    alignment: Alignment
    scale: float
    history: tuple[Point, ...]
    best_step: int
    options: LearnedMatching
    about: dict[str, Any] = field(default_factory=dict)
    ends: tuple[float, ...] = ()
    gains: Mapping[str, Tensor] = field(default_factory=dict)
    frame: Alignment | None = None

    @property
    def exact(self) -> bool:
        """Whether the moved model computes what it did (up to eps, where the stream is scaled)."""
        return self.options.permutations != "soft"

    @property
    def midpoint(self) -> float:
        """The loss on the validation task where all models weigh the same, with the best latents."""
        return next(point.midpoint for point in self.history if point.step == self.best_step)

    @property
    def barrier(self) -> float:
        """J where all models weigh the same, on the validation task: L(mean of g_m θ_m) − mean of L(θ_m)."""
        return self.midpoint - sum(self.ends) / len(self.ends)

    def moved(self, form: Checkpoint) -> Checkpoint:
        """The model's canonical form in the learned basis."""
        moved = self._transported(scale_streams(form, self.scale))
        for norm, factor in self.gains.items():
            moved = split_gain(moved, norm, factor)
        return moved

    def _transported(self, form: Checkpoint) -> Checkpoint:
        if self.exact:
            return transport(form, self.alignment)
        first = transport(form, self.base)

        def leaf(name: str) -> Callable[[], Tensor]:
            return lambda: move(first.spec, first.spec.leaves[name], first[name], self.correction.maps)

        return first.derive({name: leaf(name) for name in first})


def scale_streams(form: Checkpoint, scale: float) -> Checkpoint:
    """Everything that writes to a stream, times a positive number: the norms undo it, but for their eps."""
    if scale == 1.0:
        return form
    written = {leaf.name for space in streams(form.spec) for leaf in form.spec.writers(space)}

    def scaled(name: str) -> Callable[[], Tensor]:
        return lambda: scale * form[name]

    return form.derive({name: scaled(name) for name in written})


def forms_of(models: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Canonical forms, all of the same size and families."""
    return [form.in_memory() for form in same_form(*models)]


def aligned(a: Checkpoint, b: Checkpoint, learned: Learned) -> Aligned:
    """B in A's basis and gauge by what was learned, like the result of matching."""
    return aligned_pairs((a, b), (learned,))[0]


def aligned_pairs(models: Sequence[Checkpoint], learned: Sequence[Learned]) -> tuple[Aligned, ...]:
    """The first model with each of the others by what was `learned` of these, all in the gauge of the first.

    Where that cannot be written of one, all are in canonical form.
    """
    form, *others = forms_of(models)
    if learned[0].frame is not None:
        form = transport(form, learned[0].frame)
    moved = [found.moved(other) for found, other in zip(learned, others, strict=True)]
    (first, *written), reason = in_one_gauge(models[0], (form, *moved), why_canonical(form, learned[0].options))
    matches = [_matched(form, other, found) for found, other in zip(learned, others, strict=True)]
    return tuple(Aligned(first, other, match, reason) for other, match in zip(written, matches, strict=True))


def why_canonical(form: Checkpoint, options: LearnedMatching) -> str | None:
    """Why the first model cannot stay as it is after learning with these options.

    What a LayerNorm hands on is γ ⊙ n with 1ᵀn = 0, so the part of its readers along 1/γ does nothing.  Averaged with a
    model of other gains it would; canonical forms do not have that part.  Where both sides learn, gains belong to the
    basis that A is rotated into, and there the gains of A's own basis mean nothing.
    """
    if "gains" in options.learn and options.two_sided:
        return "gains learn in a basis that A is rotated into, too"
    gained = (form.spec.norms[name] for one in free_gains(form.spec) for name in one.norms)
    if "gains" in options.learn and any(norm.kind == "layer" for norm in gained):
        return "gains of LayerNorms learn, and the average is what was learned only of readers that are centred"
    return None


def _matched(form_a: Checkpoint, form_b: Checkpoint, learned: Learned) -> Matched:
    """The learned map, with the distances where learning began and where it ended."""
    pair = Pair.of(form_a, form_b)
    weight = block_weights(pair, "balanced")
    distances = tuple(
        sum(weight[leaf.name] * pair.distance(g.maps, leaf) for leaf in pair.spec.leaves.values())
        for g in (learned.base, learned.alignment)
    )
    return Matched(learned.alignment, distances, converged=True)


def aligned_together(
    models: Sequence[Checkpoint], learned: Sequence[Learned]
) -> tuple[tuple[Checkpoint, ...], str | None]:
    """All models in the basis and gauge of the first, which stays as it is, and None.

    Where that cannot be written, canonical forms of all and the reason.
    """
    pairs = aligned_pairs(models, learned[1:])
    return (pairs[0].a, *(pair.b for pair in pairs)), pairs[0].reason
