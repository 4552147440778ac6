"""Spaces that play the same role in different layers, taken as one.

A role is a name without its numbers: layers.3.qk has the role layers.#.qk.  All spaces of a role share one latent, with
one fibre for each of their maps, so that a step acts once for all layers and heads.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor

from onebasin.families import Family
from onebasin.maps import Map
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
