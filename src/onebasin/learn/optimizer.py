"""The optimisers of latents and their rate: AdamW, and Muon, whose step turns all directions at one speed [1].

    M ← β M + (1−β) G        Z ← Z − lr · O,  O ≈ U Vᵀ  of  (1−β) G + β M = U Σ Vᵀ

Adam sees the entries of Z one by one, in whatever basis A happens to have; O follows the basis.  Latents that are not
square matrices (angles, scales) take Adam's step with the same rate.

[1] K. Jordan et al., Muon: an optimizer for hidden layers in neural networks (2024).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor, nn

from onebasin.learn.options import LearnedMatching

MOMENTUM = 0.95
BETAS = (0.9, 0.999)
QUINTIC = (3.4445, -4.7750, 2.0315)  # x ↦ a x + b x³ + c x⁵ takes singular values near one in five rounds
ROUNDS = 5
LEAST = 1e-7  # the norm of a gradient to speak of: where a layer has collapsed there is none, and its latents stay


def orthogonalised(x: Tensor) -> Tensor:
    """Nearly U Vᵀ of x = U Σ Vᵀ (f?, n, n), by products alone: singular values end between 0.7 and 1.2."""
    a, b, c = QUINTIC
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(LEAST)
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x


class Muon(torch.optim.Optimizer):
    """Square matrices by orthogonalised momentum, everything else by Adam."""

    def __init__(self, parameters: Iterable[Tensor], lr: float, weight_decay: float = 0.0) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Move every latent that has a gradient."""
        for group in self.param_groups:
            for z in group["params"]:
                if z.grad is not None:
                    z.mul_(1 - group["lr"] * group["weight_decay"])
                    z.sub_(self._direction(z, z.grad), alpha=group["lr"])

    def _direction(self, z: Tensor, gradient: Tensor) -> Tensor:
        if z.ndim >= 2 and z.shape[-1] == z.shape[-2]:
            mean = self._kept(z, "mean").lerp_(gradient, 1 - MOMENTUM)
            return orthogonalised(torch.lerp(gradient, mean, MOMENTUM))
        first, second = BETAS
        mean = self._kept(z, "mean").lerp_(gradient, 1 - first)
        square = self._kept(z, "square").lerp_(gradient.square(), 1 - second)
        steps = self.state[z].setdefault("step", torch.zeros((), dtype=z.dtype, device=z.device)).add_(1)
        size = (square / (1 - second**steps)).sqrt() + 1e-8
        step: Tensor = mean / (1 - first**steps) / size
        return step

    def _kept(self, z: Tensor, name: str) -> Tensor:
        kept: Tensor = self.state[z].setdefault(name, torch.zeros_like(z))
        return kept


def optimizer(learned: list[nn.Parameter], options: LearnedMatching) -> torch.optim.Optimizer:
    """The one that the options name."""
    if options.optimizer == "muon":
        return Muon(learned, lr=options.lr, weight_decay=options.weight_decay)
    return torch.optim.AdamW(learned, lr=options.lr, weight_decay=options.weight_decay, fused=learned[0].is_cuda)


class Scheduled(Protocol):
    """A run of so many steps, a share of which warms up."""

    @property
    def steps(self) -> int: ...
    @property
    def warmup(self) -> float: ...


def rate(step: int, options: Scheduled) -> float:
    """The learning rate of a step as a share of `lr`: linear warm-up, then a half cosine to zero."""
    warm = round(options.warmup * options.steps)
    if step < warm:
        return (step + 1) / (warm + 1)
    return (1 + math.cos(math.pi * (step - warm) / max(options.steps - warm, 1))) / 2
