"""Paths between two models.  λ in [0, 1] is the share of B: λ = 0 is A, λ = 1 is B."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from onebasin.canonical.rewrites import untie
from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.stock import stock_model
from onebasin.errors import Incompatible, OnebasinError

Numbers = dict[str, Tensor]


class Path:
    """θ(λ) between `a` and `b`.  `model(λ)` is built once; each further λ only replaces its numbers."""

    name: ClassVar[str]

    def __init__(self, a: Checkpoint, b: Checkpoint) -> None:
        if a.spec.tied != b.spec.tied:
            a, b = untie(a), untie(b)
        check_same_tensors(a, b)
        self.a, self.b = a, b
        self._built: tuple[torch.dtype, torch.device, nn.Module, Numbers, Numbers] | None = None

    def model(self, share: float, dtype: torch.dtype = torch.float32, device: str | torch.device = "cpu") -> nn.Module:
        """The model at λ = `share`.  It is the same module at every call: use it before asking for the next."""
        check_share(share)
        device = torch.device(device)
        if self._built is None or self._built[:2] != (dtype, device):
            wide = torch.promote_types(dtype, torch.float32)
            start, end = _numbers(self.a, wide, device), _numbers(self.b, wide, device)
            self._built = (dtype, device, self._build(dtype).to(device), start, end)
        _, _, model, start, end = self._built
        self._move(model, share)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name in start:
                    parameter.copy_(torch.lerp(start[name], end[name], share))
        return model

    def _build(self, dtype: torch.dtype) -> nn.Module:
        return stock_model(self.a, dtype)

    def _move(self, model: nn.Module, share: float) -> None:
        """What else depends on λ."""


class FactorPath(Path):
    """θ(λ) = (1−λ) θ_A + λ θ_B, tensor by tensor: every point is a stock checkpoint."""

    name = "factor"

    def at(self, share: float) -> Checkpoint:
        """The stock checkpoint at λ = `share`; lazily, leaf by leaf."""
        check_share(share)
        a, b = self.a, self.b

        def between(leaf: str) -> Tensor:
            return torch.lerp(a[leaf], b[leaf], share)

        return a.derive({leaf: partial(between, leaf) for leaf in a})


def _numbers(checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device) -> Numbers:
    return {name: p.detach().to(device) for name, p in stock_model(checkpoint, dtype).named_parameters()}


def check_share(share: float) -> None:
    if not 0 <= share <= 1:
        raise OnebasinError(
            "A point of a path lies between its ends",
            expected="a share of B from 0 (A) to 1 (B)",
            found=share,
            next_step="give the share of B",
        )


def check_same_tensors(a: Checkpoint, b: Checkpoint) -> None:
    """Both models have the same leaves, of the same shapes."""
    shapes = [{name: leaf.shape for name, leaf in end.spec.leaves.items()} for end in (a, b)]
    odd = sorted(name for name in shapes[0].keys() | shapes[1].keys() if shapes[0].get(name) != shapes[1].get(name))
    if odd or a.spec.architecture != b.spec.architecture:
        raise Incompatible(
            "There is no straight path between models with different tensors",
            tensor=odd[0] if odd else None,
            expected=shapes[0].get(odd[0]) if odd else a.spec.architecture,
            found=shapes[1].get(odd[0]) if odd else b.spec.architecture,
            next_step="`onebasin inspect A B` says what differs",
        )
