"""The straight path between two models or more: every tensor is averaged by the shares of a point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from onebasin.canonical.rewrites import untie
from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.elementwise import FromFiles
from onebasin.checkpoint.model import Recipe
from onebasin.checkpoint.stock import source_key, stock_model
from onebasin.checkpoint.views import select
from onebasin.errors import Incompatible
from onebasin.linalg import mixture, outer_sum, running_shares
from onebasin.paths.points import Point, point

Numbers = dict[str, Tensor]
Shares = float | Sequence[float]
Paces = Mapping[str, Sequence[Tensor]]


class FactorPath:
    """θ(λ) = Σ λ_m θ_m, tensor by tensor: every point is a stock checkpoint.

    With `paces`, one mapping of stored tensors for each model, the shares of an entry are λ_m exp(s_m) over their sum:
    it goes the same way from model to model at a pace of its own.  s_m is a sum of numbers of its row, column, ...
    """

    name: ClassVar[str] = "factor"

    def __init__(self, *models: Checkpoint, paces: Sequence[Paces] = ()) -> None:
        if len({model.spec.tied for model in models}) > 1:
            models = tuple(untie(model) for model in models)
        for model in models[1:]:
            check_same_tensors(models[0], model)
        self.models, self.paces = models, paces
        self._built: tuple[torch.dtype, torch.device, nn.Module, list[Numbers]] | None = None

    def at(self, shares: Shares) -> Checkpoint:
        """The stock checkpoint at λ; lazily, leaf by leaf: beside the sum, one leaf of one model is in memory."""
        place, first = point(shares, len(self.models)), self.models[0]

        def between(leaf: str) -> Tensor:
            own = first.spec.leaves[leaf]
            shares = [select(x, own) if isinstance(x, Tensor) else x for x in self.shares_of(own.key, place)]
            total = shares[0] * first[leaf]
            for share, model in zip(shares[1:], self.models[1:], strict=True):
                total += share * model[leaf]
            return total

        def recipe(leaf: str) -> Recipe:
            if any(first.spec.leaves[leaf].key in own for own in self.paces):
                return partial(between, leaf)
            return FromFiles.average([model.leaves[leaf] for model in self.models], place) or partial(between, leaf)

        return first.derive({leaf: recipe(leaf) for leaf in first})

    def shares_of(self, key: str, place: Point) -> Sequence[float | Tensor]:
        """Those of a stored tensor at λ: one for each model, or where it has paces, one for each of its entries."""
        if not any(key in own for own in self.paces):
            return place
        counts: list[float | Tensor] = [
            share * outer_sum(own[key]).exp() if key in own else share
            for share, own in zip(place, self.paces, strict=True)
        ]
        total = sum(counts)
        return [count / total for count in counts]

    def model(
        self, shares: Shares, dtype: torch.dtype = torch.float32, device: str | torch.device = "cpu"
    ) -> nn.Module:
        """The model at λ.  It is the same module at every call: use it before asking for the next."""
        place, device = point(shares, len(self.models)), torch.device(device)
        if self._built is None or self._built[:2] != (dtype, device):
            wide = torch.promote_types(dtype, torch.float32)
            ends = [
                {name: p.detach().to(device) for name, p in stock_model(model, wide).named_parameters()}
                for model in self.models
            ]
            self._built = (dtype, device, self._build(dtype).to(device), ends)
        _, _, model, ends = self._built
        self._move(model, place)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name in ends[0]:
                    parts = [end[name] for end in ends]
                    own = self.shares_of(source_key(self.models[0].spec, name), place)
                    each = [torch.as_tensor(share, dtype=torch.float64) for share in own]
                    running = running_shares(torch.stack(torch.broadcast_tensors(*each)))
                    parameter.copy_(mixture(parts, running.to(parts[0])))
        return model

    def _build(self, dtype: torch.dtype) -> nn.Module:
        return stock_model(self.models[0], dtype)

    def _move(self, model: nn.Module, place: Point) -> None:
        """What else depends on λ."""


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
