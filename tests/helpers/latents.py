"""Latents of every family at random places, by any chart."""

from __future__ import annotations

import torch
from torch import Tensor

from onebasin import families as fam
from onebasin.moving.latents import Latent
from onebasin.papers.options import PaperLearning
from onebasin.papers.strategies import variation_of

SIZE = 6
ROTATIONS = ("cayley", "exponential", "polar")


def make(family: fam.Family, fibres: int | None, *, size: int = SIZE, moves: bool = False, **paper: object) -> Latent:
    """The latent that a run with these options of the papers has."""
    variation = variation_of(PaperLearning(**paper))
    return variation.latents[family](family, size, fibres, variation.rotation(), moves)


def double(parts: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: x.double() if x.is_floating_point() else x for name, x in parts.items()}


def random(latent: Latent, seed: int = 0, size: float = 0.15) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)
    parts = double(latent.start())
    return {
        name: x + size * torch.randn(x.shape, generator=g, dtype=x.dtype) if x.is_floating_point() else x
        for name, x in parts.items()
    }
