"""The objective: the task loss of the model at λ among the moved models, as a function of the latents.

    θ(λ) = Σ_m λ_m g_m θ_m        loss(latents) = E over λ and batches of  CE(f_θ(λ)(x), y)

λ lies on the simplex; between A and B it is (1−λ, λ).  The weights are frozen; g_1 is the identity unless all sides
learn (third paper).  The first paper's J = E[L(θ(λ)) − Σ_m λ_m L(g_m θ_m)] has the same gradient, for symmetries keep
each L(g_m θ_m) what it is.  (Soft permutations do not; there J would reward worse end points, so L(θ(λ)) alone is
minimised.)  The model is the first one's stock class, called with θ(λ) as its parameters, so nothing here knows what it
computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from onebasin.checkpoint import Checkpoint
from onebasin.errors import BadTask
from onebasin.learn.options import LearnedMatching
from onebasin.learn.variation import OURS, Variation, latents_of
from onebasin.moving.blocks import Frozen, Where
from onebasin.moving.coordinates import STILL, Coordinates
from onebasin.moving.head import Taught
from onebasin.moving.in_blocks import InBlocks, resting_in
from onebasin.moving.layout import Grouping
from onebasin.moving.making import Makings
from onebasin.moving.running import Running, Whole
from onebasin.moving.stacks import free_gains
from onebasin.processes.world import World
from onebasin.tasks import IGNORED, LANGUAGE, MASKED, TAGGING, Measure
from onebasin.tasks.losses import options_of

Inputs = Mapping[str, Tensor]
BY_TOKEN = (LANGUAGE, MASKED, TAGGING)  # heads that say something at every token
Target = Tensor | Taught


class Objective(nn.Module):
    """θ(λ) and its loss among canonical forms (moved by their bases already); λ is a `share` (M,)."""

    def __init__(
        self,
        forms: Sequence[Checkpoint],
        options: LearnedMatching,
        kind: str,
        variation: Variation = OURS,
        *,
        dtype: torch.dtype = torch.float32,
        forward_dtype: torch.dtype | None = None,
        tokens: int = 0,
        loss: Measure | None = None,
        device: torch.device | str = "cpu",
        world: World | None = None,
    ) -> None:
        """`tokens` is how many of them a batch has: smaller vocabularies are rotated as tables, larger after lookup.

        `loss` is the task's own, if it has one; agreement has no use for it.
        """
        super().__init__()
        self.kind, self.dtype, self.models = kind, dtype, len(forms)
        spec, scaled, still = forms[0].spec, variation.scale, 0 if options.two_sided else 1
        gained = free_gains(spec) if "gains" in options.learn else []
        paced = {key: shape for key, shape in spec.keys.items() if shape and "shares" in options.learn}
        latents = latents_of(spec, options, variation)
        self.sides = nn.ModuleList(
            Coordinates(latents, gained if m else (), paced if m else {}, scaled=scaled, dtype=dtype)
            for m in range(still, len(forms))
        ).to(device)
        self.taught = options.loss == "agreement"
        self.blocks, own = options.by_blocks(spec), None if self.taught else loss
        kept, grouping = resting_in(dtype, blocks=self.blocks), Grouping(spec, latents, gained, scaled=scaled)
        half = None if self.blocks else forward_dtype  # blocks are in that type themselves
        frozen = Frozen(
            forms, grouping, still, dtype, kept, half, again=self.blocks, dropout=options.dropout,
            circuits=options.path == "circuit",
            makings=Makings(compiled=self.blocks and options.compiles(torch.device(device).type)),
        )  # fmt: skip
        self.running: Running
        if self.blocks:
            place = torch.device(device)
            self.running = InBlocks(frozen, own, forward_dtype or dtype, place, world or World())
        else:
            self.running = Whole(frozen, own, tokens if kind == LANGUAGE else 0).to(device)

    @property
    def model(self) -> nn.Module:
        return self.running.model

    def learned(self) -> list[nn.Parameter]:
        return list(self.sides.parameters())

    def each_side(self, name: str) -> None:
        """Call a method of the coordinates of every side: "settle" or "recentre"."""
        for side in self.sides:
            getattr(side, name)()

    def counted(self, inputs: Inputs, labels: Tensor | None) -> Tensor:
        """How much the loss of a batch counts: as many labels as it has, or samples; of padded ones only a part."""
        taught, mask = self.taught or labels is None, inputs.get("attention_mask")
        if labels is not None and not taught and self.running.loss is None:
            return (labels != IGNORED).sum()
        if taught and mask is not None and self.kind in BY_TOKEN:
            return mask.sum() / mask.shape[1]
        first = next(iter(inputs.values()))
        return torch.tensor(len(first), device=first.device)

    @torch.no_grad()
    def target(self, inputs: Inputs, labels: Tensor | None, share: Tensor) -> Target:
        """What the model at λ should say: the labels, or what the end points say, by option or where there are none."""
        if labels is not None and not self.taught:
            return labels
        still = (STILL,) * self.models
        corners = torch.eye(self.models, dtype=self.dtype, device=share.device)
        ends = [Where(corner, still) for corner in corners]
        said: Target = self.running(self.running.taught, ends, self._given(inputs), share, self.kind)
        return said

    def where(self, share: Tensor, *, still: bool = False) -> Where:
        """The place λ, where every model is moved by its latents; nothing moves the first unless all sides learn."""
        sides = () if still else [side() for side in self.sides]
        return Where(share, (*[STILL] * (self.models - len(sides)), *sides))

    def theta(self, share: Tensor) -> dict[str, Tensor]:
        """θ(λ) by the model's own parameter names, with what else of the model depends on λ."""
        return self.running.theta(self.where(share))

    def _given(self, inputs: Inputs) -> dict[str, Any]:
        return {**inputs, **options_of(self.kind)}

    def at(self, share: Tensor, *, still: bool = False) -> Callable[..., Tensor]:
        """The model at λ as a function: (inputs) to what it says, or (inputs, labels) to the mean loss.

        With `still` no model moves: learning has not begun.
        """
        where = self.running.ready(self.where(share, still=still))

        def call(inputs: Inputs, target: Target | None = None) -> Tensor:
            given = self._given(inputs)
            if target is None:
                said: Tensor = self.running(self.running.said, where, given)
                return said
            loss: Tensor = self.running(self.running.loss_at, where, given, target)
            return loss

        return call

    def forward(self, inputs: Inputs, target: Target, share: Tensor, back: bool = False) -> Tensor:
        """The loss at λ = `share`, a number on the device; with `back` it is added to the gradients."""
        loss = self.at(share)(inputs, target)
        return go_back(loss) if back else loss


def go_back(loss: Tensor) -> Tensor:
    """Add the gradients of a loss, and return its value."""
    if not loss.requires_grad:
        step = "make it of differentiable operations on the outputs: no argmax, no .detach(), no .item()"
        raise BadTask("The loss has no gradient", expected="a tensor that follows the outputs", next_step=step)
    loss.backward()
    return loss.detach()
