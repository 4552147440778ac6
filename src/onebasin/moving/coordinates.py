"""The latents of one model as parameters: what an optimiser updates, and a state of training holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from onebasin.alignment import Alignment
from onebasin.linalg import outer_sum
from onebasin.maps import Map
from onebasin.moving.latents import Latent
from onebasin.moving.stacks import Gains, stacks
from onebasin.spec import ModelSpec

SCALE, GAINS, SHARES = "scale", "gains", "shares"
LARGEST_SCALE = 4.0  # of a stream, and its inverse the least: smaller streams would drown in eps, and B with them

Shapes = Mapping[str, Sequence[int]]
NONE: Shapes = {}


class Moves(NamedTuple):
    """What moves a model: the maps of its stacks, a factor of its streams, and a factor (d,) of the gain of norms.

    `paces` say by how much more than the model's share its numbers count, as logarithms: in a stored tensor that of an
    entry is the sum of one for each of its rows, columns and further axes.
    """

    maps: Mapping[str, Map]
    scale: Tensor | None
    gains: Mapping[str, Tensor]
    paces: Mapping[str, Sequence[Tensor]] = MappingProxyType({})

    def pace(self, keys: Sequence[str], rows: Tensor | None = None) -> Tensor:
        """Of all entries of stored tensors of one shape (L, ...); or of the `rows` (n, T) of a single one."""
        if rows is None:
            return torch.stack([outer_sum(self.paces[key]) for key in keys])
        first, *others = self.paces[keys[0]]
        return outer_sum([first[rows], *others])


STILL = Moves({}, None, {})


class Coordinates(nn.Module):
    """One parameter per part of a latent, named STACK/PART with | for dots; what is not learned of it are buffers.

    The logarithms of the factors of streams and of gains, and the paces of stored tensors, are parameters, too.
    """

    def __init__(
        self, latents: Mapping[str, Latent], gained: Sequence[Gains] = (), paced: Shapes = NONE, *, scaled: bool,
        dtype: torch.dtype,
    ) -> None:  # fmt: skip
        """`paced` are the stored tensors that have shares of their own, with their shapes."""
        super().__init__()
        self.latents, self.gained, self.paced, self.scaled = dict(latents), tuple(gained), dict(paced), scaled
        for stack, latent in latents.items():
            for part, tensor in latent.start().items():
                self.register_parameter(_name(stack, part), nn.Parameter(tensor.to(dtype)))
            for part, tensor in latent.state().items():
                self.register_buffer(_name(stack, part), tensor)
        if scaled:
            self.register_parameter(SCALE, nn.Parameter(torch.zeros((), dtype=dtype)))
        for one in gained:
            logarithms = torch.zeros(len(one.norms), one.size, dtype=dtype)
            self.register_parameter(_name(one.name, GAINS), nn.Parameter(logarithms))
        if paced:
            self.register_parameter(SHARES, nn.Parameter(torch.zeros(sum(map(sum, paced.values())), dtype=dtype)))

    def parts(self, stack: str) -> dict[str, Tensor]:
        front = _name(stack, "")
        named = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        return {name.removeprefix(front): x for name, x in named.items() if name.startswith(front)}

    def forward(self) -> Moves:
        """The maps of the latents, differentiably."""
        maps = {stack: latent.map(self.parts(stack)) for stack, latent in self.latents.items()}
        return Moves(maps, self._scale() if self.scaled else None, self.gains(), self.paces())

    def _scale(self) -> Tensor:
        """exp(s) for small s, within 1/4 and 4 for all."""
        limit = math.log(LARGEST_SCALE)
        return (limit * (self.get_parameter(SCALE) / limit).tanh()).exp()

    def gains(self) -> dict[str, Tensor]:
        """The factor exp(s) of every gain that learns, (d,) by the name of its norm."""
        found: dict[str, Tensor] = {}
        for one in self.gained:
            factors = self.get_parameter(_name(one.name, GAINS)).exp()
            found |= dict(zip(one.norms, factors.unbind(0), strict=True))
        return found

    def paces(self) -> dict[str, list[Tensor]]:
        """Those of every stored tensor that has some, a vector for each axis."""
        if not self.paced:
            return {}
        parts = iter(self.get_parameter(SHARES).split([size for shape in self.paced.values() for size in shape]))
        return {key: [next(parts) for _ in shape] for key, shape in self.paced.items()}

    def settle(self) -> None:
        """Check that all charts hold where the latents are."""
        for stack, latent in self.latents.items():
            latent.settle(self.parts(stack))

    @torch.no_grad()
    def recentre(self) -> None:
        """Move the charts along: the same maps, with latents of zero."""
        for stack, latent in self.latents.items():
            parts = self.parts(stack)
            for name, value in latent.recentred(parts).items():
                parts[name].copy_(value)

    @torch.no_grad()
    def alignment(self, spec: ModelSpec, *, hard: bool = True) -> Alignment:
        """The learned maps, space by space, in float64, with the identity elsewhere; relaxed ones made hard or not."""
        whole = Alignment.identity(spec)
        maps = dict(whole.maps)
        for stack in stacks(spec):
            if stack.name in self.latents:
                latent = self.latents[stack.name]
                parts = {
                    name: x.cpu().double() if x.is_floating_point() else x.cpu()
                    for name, x in self.parts(stack.name).items()
                }
                maps |= stack.unstacked(latent.hardened(parts) if hard else latent.member(parts))
        return Alignment(maps, whole.bases)

    @torch.no_grad()
    def learned_gains(self) -> dict[str, Tensor]:
        """`gains` in float64."""
        return {norm: factor.cpu().double() for norm, factor in self.gains().items()}

    @torch.no_grad()
    def learned_paces(self) -> dict[str, list[Tensor]]:
        """`paces` in float64."""
        return {key: [x.cpu().double().clone() for x in own] for key, own in self.paces().items()}

    def factor(self) -> float:
        """Of the streams; one where they are not scaled."""
        return float(self._scale().detach()) if self.scaled else 1.0


def _name(stack: str, part: str) -> str:
    return f"{stack.replace('.', '|')}/{part}"
