"""The simplex between any number of models, and points on it.

A point is one share λ_m ≥ 0 for each model, Σ λ_m = 1, and θ(λ) = Σ λ_m θ_m is a stock checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations

import torch
from torch import Tensor, nn

from onebasin.canonical.rewrites import untie
from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.stock import load_weights, stock_model
from onebasin.errors import OnebasinError
from onebasin.paths.straight import check_same_tensors

SIDE = 7  # points on a side of the triangle: its grid holds the centre and the middles of the sides
Point = tuple[float, ...]


class Simplex:
    """θ(λ) = Σ λ_m θ_m, made leaf by leaf: beside the sum, one leaf of one model is in memory."""

    def __init__(self, models: Sequence[Checkpoint]) -> None:
        if len({model.spec.tied for model in models}) > 1:
            models = [untie(model) for model in models]
        for model in models[1:]:
            check_same_tensors(models[0], model)
        self.models = tuple(models)
        self._built: tuple[torch.dtype, torch.device, nn.Module] | None = None

    def at(self, shares: Sequence[float]) -> Checkpoint:
        """The stock checkpoint at λ = `shares`; lazily."""
        check_shares(shares, len(self.models))

        def between(leaf: str) -> Tensor:
            total = shares[0] * self.models[0][leaf]
            for share, model in zip(shares[1:], self.models[1:], strict=True):
                total += share * model[leaf]
            return total

        first = self.models[0]
        return first.derive({leaf: partial(between, leaf) for leaf in first})

    def model(
        self, shares: Sequence[float], dtype: torch.dtype = torch.float32, device: str | torch.device = "cpu"
    ) -> nn.Module:
        """The model at λ = `shares`.  It is the same module at every call: use it before asking for the next."""
        device = torch.device(device)
        if self._built is None or self._built[:2] != (dtype, device):
            self._built = dtype, device, stock_model(self.models[0], dtype).to(device)
        load_weights(self._built[2], self.at(shares))
        return self._built[2]


def check_shares(shares: Sequence[float], count: int) -> None:
    """One share for each model, none below zero, one in all."""
    if len(shares) != count or min(shares) < 0 or abs(sum(shares) - 1) > 1e-9:
        raise OnebasinError(
            "A point of the simplex has one share for each model",
            expected=f"{count} shares from 0 to 1 that add up to 1",
            found=tuple(shares),
            next_step="give the share of every model",
        )


def vertices(count: int) -> list[Point]:
    """The models themselves."""
    return [tuple(float(i == m) for i in range(count)) for m in range(count)]


def middle(count: int, *members: int) -> Point:
    """The average of these models."""
    return tuple(1 / len(members) if i in members else 0.0 for i in range(count))


def grid(count: int, side: int | None = None) -> list[Point]:
    """Vertices, middles of all pairs, the centre; for three models also a triangle with `side` points on a side."""
    if side is not None and (side < 2 or count != 3):
        expected, step = "2 points or more on a side, of three models", "leave it out for more models than three"
        raise OnebasinError("There is no such grid", expected=expected, found=(side, count), next_step=step)
    points = [*vertices(count), *(middle(count, *pair) for pair in combinations(range(count), 2))]
    points.append(middle(count, *range(count)))
    if count == 3:
        steps = (side or SIDE) - 1
        inside = [(i, j, steps - i - j) for i in range(steps, -1, -1) for j in range(steps - i, -1, -1)]
        points += [tuple(n / steps for n in point) for point in inside]
    return list(dict.fromkeys(points))  # equal fractions are equal numbers
