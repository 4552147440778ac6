"""Which spaces learn and by which coordinates, and spaces that play the same role in different layers taken as one.

A role is a name without its numbers: layers.3.qk has the role layers.#.qk.  All spaces of a role share one latent, with
one fibre for each of their maps, so that a step acts once for all layers and heads.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from onebasin.alignment import Alignment
from onebasin.ensemble.aligned import Move
from onebasin.errors import NotInFamily
from onebasin.families import ORTHOGONAL_ONES, Family
from onebasin.learn.latents import LATENTS, CayleyChart, Chart, Latent
from onebasin.learn.options import LearnedMatching
from onebasin.maps import Map
from onebasin.paths.laws import Law
from onebasin.spec import ModelSpec
from onebasin.spec.ops import bilinear, gain_product, head_sum


def role(name: str) -> str:
    return re.sub(r"\d+", "#", name)


@dataclass(frozen=True)
class Stack:
    """Spaces of one role, size and family; `each` is how many fibres one of them has, or None."""

    name: str
    spaces: tuple[str, ...]
    family: Family
    size: int
    each: int | None

    @property
    def fibres(self) -> int | None:
        """Maps in all, one fibre each; None for a single map."""
        return None if self.each is None and len(self.spaces) == 1 else len(self.spaces) * (self.each or 1)

    def unstacked(self, g: Map) -> dict[str, Map]:
        """The map of each space, from the one map of the stack."""
        if self.fibres is None:
            return {self.spaces[0]: g}
        step, maps = self.each or 1, {}
        for i, space in enumerate(self.spaces):
            part = g.take(range(i * step, (i + 1) * step))
            single = {name: tensor[0] for name, tensor in part.tensors().items()}
            maps[space] = part if self.each is not None else type(part).from_tensors(single)
        return maps

    def fibres_of(self, spaces: tuple[str, ...]) -> Tensor | slice:
        """Where the maps of some of the spaces are in the stack."""
        step, start = self.each or 1, self.spaces.index(spaces[0])
        if spaces == self.spaces[start : start + len(spaces)]:
            return slice(start * step, (start + len(spaces)) * step)
        return torch.cat([self.spaces.index(s) * step + torch.arange(step) for s in spaces])


def stacks(spec: ModelSpec) -> list[Stack]:
    """Every space of the model, by role."""
    found = defaultdict(list)
    for name, space in spec.spaces.items():
        found[role(name), spec.family(name), space.size, spec.fibres(name)].append(name)
    names = [key[0] for key in found]
    unique = [name if names.count(name) == 1 else f"{name} ({i})" for i, name in enumerate(names)]
    return [Stack(name, tuple(members), *key[1:]) for name, (key, members) in zip(unique, found.items(), strict=True)]


def group_of(spec: ModelSpec, space: str) -> str:
    """residual, qk, ov, heads or units: what the space is for, from what touches it."""
    ops = spec.ops(space)
    if head_sum() in ops:
        return "heads"
    if bilinear() in ops or gain_product() in ops:
        return "qk"
    if spec.spaces[space].base in spec.heads:
        return "ov"
    return "residual" if any(norm.space == space for norm in spec.norms.values()) else "units"


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
    makes the chart of orthogonal matrices; `scale` adds one positive number on what writes the streams; `beside` runs
    beside the steps.  `move` makes what moves a model of where it began, the correction as it was learned, its nearest
    member of the families, and the scale; `exact` is False where the moved model is not the same function any more.
    """

    law: Law | None = None
    latents: Mapping[Family, Callable[..., Latent]] = field(default_factory=lambda: LATENTS)
    rotation: Callable[[], Chart] = CayleyChart
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
        if group in asked and stack.family in variation.latents and stack.size > 1:
            kind = variation.latents[stack.family]
            latents[stack.name] = kind(stack.family, stack.size, stack.fibres, rotation, moves)
            learning.add(group)
    if variation.scale:
        _check_scalable(spec)
        learning.add("scale")
    if "gains" in options.learn and free_gains(spec):
        learning.add("gains")
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


@dataclass(frozen=True)
class Gains:
    """Norms of one role and size whose gain was folded into their readers: they can take any part of it back."""

    name: str
    norms: tuple[str, ...]
    size: int


def free_gains(spec: ModelSpec) -> list[Gains]:
    found = defaultdict(list)
    for name, norm in spec.norms.items():
        if norm.unit and norm.gain and not norm.blocked:
            found[role(name), spec.spaces[norm.space].size].append(name)
    return [Gains(f"{kind} ({size})", tuple(names), size) for (kind, size), names in found.items()]


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
