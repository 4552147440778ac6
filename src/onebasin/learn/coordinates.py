"""The latents of one model as parameters: what an optimiser updates, and a state of training holds."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from onebasin.alignment import Alignment
from onebasin.learn.assignments import StraightThrough
from onebasin.learn.latents import Latent
from onebasin.learn.spaces import stacks
from onebasin.maps import Map
from onebasin.spec import ModelSpec

SCALE = "scale"


class Coordinates(nn.Module):
    """One parameter per part of a latent, named STACK/PART with | for dots; integers are buffers."""

    def __init__(self, latents: Mapping[str, Latent], *, scaled: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.latents = dict(latents)
        self.scaled = scaled
        for stack, latent in latents.items():
            for part, tensor in latent.start().items():
                if tensor.is_floating_point():
                    self.register_parameter(_name(stack, part), nn.Parameter(tensor.to(dtype)))
                else:
                    self.register_buffer(_name(stack, part), tensor)
        if scaled:
            self.register_parameter(SCALE, nn.Parameter(torch.zeros((), dtype=dtype)))

    def parts(self, stack: str) -> dict[str, Tensor]:
        front = _name(stack, "")
        named = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        return {name.removeprefix(front): x for name, x in named.items() if name.startswith(front)}

    def forward(self) -> tuple[dict[str, Map], Tensor | None]:
        """The maps of the stacks, and the factor exp(s) of the streams."""
        maps = {stack: latent.map(self.parts(stack)) for stack, latent in self.latents.items()}
        return maps, self.get_parameter(SCALE).exp() if self.scaled else None

    def assignments(self) -> dict[str, tuple[Tensor, Tensor]]:
        """(scores, index) of every straight-through permutation."""
        found = {}
        for stack, latent in self.latents.items():
            if isinstance(latent, StraightThrough):
                parts = self.parts(stack)
                found[stack] = latent.scores(parts["z"].detach()), parts["index"]
        return found

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

    def factor(self) -> float:
        """exp(s), one where the streams are not scaled."""
        return float(self.get_parameter(SCALE).detach().double().exp()) if self.scaled else 1.0


def _name(stack: str, part: str) -> str:
    return f"{stack.replace('.', '|')}/{part}"
