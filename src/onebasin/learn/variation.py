"""Which spaces learn, and by which coordinates: ours, or what a paper has in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor, nn

from onebasin.alignment import Alignment
from onebasin.ensemble.aligned import Move
from onebasin.errors import NotInFamily
from onebasin.families import ORTHOGONAL_ONES, Family, meet
from onebasin.learn.options import LearnedMatching
from onebasin.moving.latents import LATENTS, CayleyChart, Chart, Latent
from onebasin.moving.stacks import free_gains, group_of, stacks
from onebasin.paths.laws import Law
from onebasin.spec import ModelSpec


class Beside:
    """What runs beside the steps: nothing, unless a paper has something, such as assignments that are solved again."""

    def __init__(self, sides: nn.ModuleList) -> None:
        self.sides = sides

    def refresh(self, step: int) -> None:
        """Called before every step."""

    def pending(self) -> dict[str, Tensor]:
        """What a state on disk must keep of it."""
        return {}

    def take_up(self, pending: dict[str, Tensor]) -> None:
        """Go on from what `pending` gave."""


@dataclass(frozen=True)
class Variation:
    """`law` draws λ in place of the one in the options; `latents` are the coordinates of each family, and `rotation`
    makes the chart of orthogonal matrices; `largest` is the largest family that a group of spaces may have, where that
    is not its own; `scale` adds one positive number on what writes the streams; `beside` runs
    beside the steps.  `move` makes what moves a model of where it began, the correction as it was learned, its nearest
    member of the families, and the scale; `exact` is False where the moved model is not the same function any more.
    """

    law: Law | None = None
    latents: Mapping[Family, Callable[..., Latent]] = field(default_factory=lambda: LATENTS)
    rotation: Callable[[], Chart] = CayleyChart
    largest: Mapping[str, Family] = field(default_factory=dict)
    scale: bool = False
    beside: Callable[[nn.ModuleList], Beside] = Beside
    move: Callable[[Alignment, Alignment, Alignment, float], Move] = lambda base, _, nearest, scale: Move(
        nearest.compose(base)
    )
    exact: bool = True


OURS = Variation()


def latents_of(spec: ModelSpec, options: LearnedMatching, variation: Variation) -> dict[str, Latent]:
    """The latent of every stack that learns, by the name of the stack.

    On the circuit path the maps inside heads cancel, so they stay where the base put them.
    """
    asked = set(options.learn) - ({"qk", "ov"} if options.path == "circuit" else set())
    latents: dict[str, Latent] = {}
    learning: set[str] = set()
    rotation, moves = variation.rotation(), bool(options.recentre_every)
    for stack in stacks(spec):
        group = group_of(spec, stack.spaces[0])
        family = meet((stack.family, variation.largest.get(group, stack.family)))
        if group in asked and family in variation.latents and stack.size > 1:
            latents[stack.name] = variation.latents[family](family, stack.size, stack.fibres, rotation, moves)
            learning.add(group)
    if variation.scale:
        _check_scalable(spec)
        learning.add("scale")
    if "gains" in options.learn and free_gains(spec):
        learning.add("gains")
    if "shares" in options.learn:
        learning.add("shares")
    for group in options.learn:
        if group in ("heads", "units", "gains") and group not in learning:
            raise nothing_to_learn(spec, group)
    if not learning:
        raise nothing_to_learn(spec, options.learn[0])
    return latents


def nothing_to_learn(spec: ModelSpec, group: str) -> NotInFamily:
    space = next((name for name in spec.spaces if group_of(spec, name) == group), group)
    family = spec.family(space) if space in spec.spaces else "none"
    return NotInFamily(
        f"The {group} of this model have no symmetry with continuous coordinates, and permutations are frozen",
        space=space,
        expected="a family with rotations, scalings or invertible maps",
        found=f"{family} ({', '.join(op.name for op in spec.ops(space))})" if space in spec.spaces else family,
        next_step="leave this group out, or learn permutations as the first paper does (docs/papers.md)",
    )


def _check_scalable(spec: ModelSpec) -> None:
    """A positive number on what is written to a stream is a symmetry, up to eps, only if norms do nothing but read."""
    for space in spec.streams:
        if not spec.family(space) >= ORTHOGONAL_ONES:
            raise NotInFamily(
                "The stream cannot be scaled: a norm whose gain stays in place writes to it",
                space=space,
                expected=ORTHOGONAL_ONES,
                found=spec.family(space),
                next_step="leave the scale out",
            )
