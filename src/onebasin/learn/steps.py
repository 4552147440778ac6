"""Optimisation steps: from a batch to new latents, without waiting for the device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from onebasin.learn.batches import Batches
from onebasin.learn.laws import draw_weights, of_two, where_highest
from onebasin.learn.muon import Muon
from onebasin.learn.objective import Objective
from onebasin.learn.options import LearnedMatching
from onebasin.learn.parallel import World
from onebasin.learn.permuting import Reassignment

Tensors = dict[str, Tensor]


class Steps:
    """Adam on the latents of an objective: `done` steps so far; `total` is the loss of the last `counted` batches."""

    def __init__(self, objective: Objective, batches: Batches, options: LearnedMatching, world: World) -> None:
        self.objective, self.batches, self.options, self.world = objective, batches, options, world
        self.learned = objective.learned()
        self.device = self.learned[0].device
        batches_in_all, models = options.steps * options.accumulate, len(objective.ends)
        self._drawn = draw_weights(options.law, models, options.alpha, batches_in_all, options.seed)
        self.weights = self._drawn.to(self.device, objective.dtype)
        self.optimizer = optimizer(self.learned, options)
        self.permutations = Reassignment(objective, options.assign_every)
        self.loss = backward_pass(objective, options, self.device)
        self.done, self.counted = 0, 0
        self.total = torch.zeros((), dtype=torch.float64, device=self.device)

    def one(self) -> None:
        """Take a step.  Nothing here waits for the device."""
        options = self.options
        self.permutations.refresh(self.done)
        for group in self.optimizer.param_groups:
            group["lr"] = options.lr * rate(self.done, options)
        for p in self.learned:  # a sum must not begin in memory that a CUDA graph writes to again
            p.grad = torch.zeros_like(p) if options.accumulate > 1 else None
        for k in range(options.accumulate):
            n = self.done * options.accumulate + k
            inputs, labels = self.batches(n, self.device)
            target = self.objective.target(inputs, labels, self.weights[n])
            self.total += self.loss(inputs, target, self.weights[n].clone())
        if options.turns == "in-turn":
            self._leave_to_one(self.done % len(self.objective.sides))
        self.world.average([p.grad for p in self.learned if p.grad is not None], options.accumulate)
        if options.clip:
            nn.utils.clip_grad_norm_(self.learned, options.clip)
        self.optimizer.step()
        self.done += 1
        if options.recentre_every and self.done % options.recentre_every == 0:
            self.objective.recentre()
        self.counted += options.accumulate

    def _leave_to_one(self, turn: int) -> None:
        """Without a gradient latents stay, and so do their moments."""
        for i, side in enumerate(self.objective.sides):
            if i != turn:
                side.zero_grad()

    def aim(self, heights: Sequence[float]) -> None:
        """Take the loss where the path is highest (the law "highest")."""
        self.weights = of_two(where_highest(self._drawn[:, 1], heights)).to(self.weights)

    def mean_loss(self) -> float:
        """Over the batches since `forget`; this waits."""
        return float(self.total) / max(self.counted, 1)

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
        found |= {f"pending/{name}": x for name, x in self.permutations.pending().items()}
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
        self.permutations.take_up(under(tensors, "pending"))
        states: dict[int, Tensors] = {}
        for name, x in under(tensors, "optimizer").items():
            i, _, part = name.partition("/")
            states.setdefault(int(i), {})[part] = x
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": states})
        self.total.copy_(tensors["loss"])
        torch.set_rng_state(tensors["random/cpu"])
        if self.device.type == "cuda" and "random/cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random/cuda"], self.device)


def optimizer(learned: list[nn.Parameter], options: LearnedMatching) -> torch.optim.Optimizer:
    """The one that the options name."""
    if options.optimizer == "muon":
        return Muon(learned, lr=options.lr, weight_decay=options.weight_decay)
    kind = torch.optim.AdamW if options.optimizer == "adamw" else torch.optim.Adam
    return kind(learned, lr=options.lr, weight_decay=options.weight_decay, fused=learned[0].is_cuda)


def rate(step: int, options: LearnedMatching) -> float:
    """The learning rate of a step as a share of `lr`: linear warm-up, then a half cosine to zero (or constant)."""
    warm = round(options.warmup * options.steps)
    if step < warm:
        return (step + 1) / (warm + 1)
    if options.schedule == "constant":
        return 1.0
    return (1 + math.cos(math.pi * (step - warm) / max(options.steps - warm, 1))) / 2


def backward_pass(objective: Objective, options: LearnedMatching, device: torch.device) -> Callable[..., Tensor]:
    """A function of (inputs, labels, λ) that adds to the gradients and returns the loss; compiled if asked for."""
    mode = options.compile
    if mode == "auto":
        mode = "default" if device.type == "cuda" else "off"
    if mode == "off":
        return lambda inputs, labels, weight: objective(inputs, labels, weight, back=True)
    torch.compiler.reset()  # what was compiled for other objectives would count against the limit of recompilations
    forward: Callable[..., Any] = torch.compile(objective, mode=mode, dynamic=False)

    def both(inputs: Tensors, labels: Tensor, weight: Tensor) -> Tensor:
        loss: Tensor = forward(inputs, labels, weight)
        loss.backward()
        return loss.detach()

    return both


def under(tensors: Tensors, front: str) -> Tensors:
    return {name.removeprefix(f"{front}/"): x for name, x in tensors.items() if name.startswith(f"{front}/")}
