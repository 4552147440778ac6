"""Optimisation steps: from a batch to new latents, without waiting for the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from onebasin.learn.objective import Objective, go_back
from onebasin.learn.optimizer import optimizer, rate
from onebasin.learn.options import LearnedMatching
from onebasin.learn.variation import OURS, Variation
from onebasin.paths.laws import draw_shares, of_two, where_highest
from onebasin.processes.world import World
from onebasin.tasks.batches import Batches, MixedBatches

Tensors = dict[str, Tensor]


class Steps:
    """An optimiser on latents: `done` steps so far; `total` is the loss of the last `counted` batches."""

    def __init__(
        self, objective: Objective, batches: Batches | MixedBatches, options: LearnedMatching, world: World,
        variation: Variation = OURS,
    ) -> None:  # fmt: skip
        self.objective, self.batches, self.options, self.world = objective, batches, options, world
        self.learned = objective.learned()
        self.device = self.learned[0].device
        batches_in_all, models = options.steps * options.accumulate, objective.models
        self._drawn = draw_shares(variation.law or options.law, models, options.alpha, batches_in_all, options.seed)
        self.shares = self._drawn.to(self.device, objective.dtype)
        self.optimizer = optimizer(self.learned, options)
        self.beside = variation.beside(objective.sides)
        self.loss = backward_pass(objective, options, self.device)
        self.done, self.counted = 0, 0
        self.total = torch.zeros((), dtype=widest(self.device), device=self.device)

    def one(self) -> None:
        """Take a step.  Nothing here waits for the device."""
        options = self.options
        self.beside.refresh(self.done)
        for group in self.optimizer.param_groups:
            group["lr"] = options.lr * rate(self.done, options)
        self.optimizer.zero_grad()
        for k in range(options.accumulate):
            n = self.done * options.accumulate + k
            for inputs, labels, weight in self.batches.parts(n, self.device):
                target = self.objective.target(inputs, labels, self.shares[n])
                self.total += self.loss(inputs, target, self.shares[n].clone(), self._part(inputs, labels, weight))
        self.world.average([p.grad for p in self.learned if p.grad is not None], options.accumulate)
        if options.clip:
            nn.utils.clip_grad_norm_(self.learned, options.clip)
        self.optimizer.step()
        self.done += 1
        if options.recentre_every and self.done % options.recentre_every == 0:
            self.objective.each_side("recentre")
        self.counted += options.accumulate

    def _part(self, inputs: Tensors, labels: Tensor | None, weight: float) -> Tensor | None:
        """How much the mean loss of some samples counts; None where it is all there is."""
        if self.world.size > 1:
            return weight * self.world.part(self.objective.counted(inputs, labels))
        return None if weight == 1 else torch.tensor(weight, dtype=widest(self.device), device=self.device)

    def aim(self, heights: Sequence[float]) -> None:
        """Take the loss where the path is highest (the law "highest")."""
        self.shares = of_two(where_highest(self._drawn[:, 1], heights)).to(self.shares)

    def mean_loss(self) -> float:
        """Over the batches since `forget`, of all processes; this waits."""
        return float(self.world.mean(self.total)) / max(self.counted, 1)

    def forget(self) -> None:
        self.total.zero_()
        self.counted = 0

    def latents(self) -> Tensors:
        """A copy."""
        return {name: x.detach().clone() for name, x in self.objective.sides.state_dict().items()}

    def put(self, latents: Tensors) -> None:
        self.objective.sides.load_state_dict(latents)

    def tensors(self) -> Tensors:
        """All that the next step depends on, but for `done` and `counted`."""
        found = {f"latents/{name}": x for name, x in self.latents().items()}
        found |= {f"pending/{name}": x for name, x in self.beside.pending().items()}
        for i, state in self.optimizer.state_dict()["state"].items():
            found |= {f"optimizer/{i}/{name}": x for name, x in state.items()}
        found |= {"random/cpu": torch.get_rng_state(), "loss": self.total}
        if self.device.type == "cuda":
            found["random/cuda"] = torch.cuda.get_rng_state(self.device)
        return found

    def take_up(self, tensors: Tensors, done: int, counted: int) -> None:
        """Go on from what `tensors` gave."""
        self.done, self.counted = done, counted
        self.put(under(tensors, "latents"))
        self.beside.take_up(under(tensors, "pending"))
        states: dict[int, Tensors] = {}
        for name, x in under(tensors, "optimizer").items():
            i, _, part = name.partition("/")
            states.setdefault(int(i), {})[part] = x
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": states})
        self.total.copy_(tensors["loss"])
        self.objective.each_side("settle")
        torch.set_rng_state(tensors["random/cpu"])
        if self.device.type == "cuda" and "random/cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random/cuda"], self.device)


def widest(device: torch.device) -> torch.dtype:
    """The type for sums: Apple's GPUs have no float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def backward_pass(objective: Objective, options: LearnedMatching, device: torch.device) -> Callable[..., Tensor]:
    """A function of (inputs, target, λ, part) that adds to the gradients and returns the loss; compiled if asked for.

    `part` is how much these samples count, by their task and beside those of other processes; None for all there is.
    Blocks compile what makes them.
    """
    forward: Callable[..., Tensor] = objective
    if options.compiles(device.type):
        torch.compiler.reset()  # what was compiled for other objectives would count against the limit of recompilations
        forward = objective if objective.blocks else torch.compile(objective, dynamic=False)

    def both(inputs: Tensors, target: Any, share: Tensor, part: Tensor | None) -> Tensor:
        loss = forward(inputs, target, share)
        return go_back(loss if part is None else loss * part)

    return both


def under(tensors: Tensors, front: str) -> Tensors:
    return {name.removeprefix(f"{front}/"): x for name, x in tensors.items() if name.startswith(f"{front}/")}
