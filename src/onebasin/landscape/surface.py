"""Loss over a simplex, and the barrier it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch

from onebasin.landscape.evaluate import BATCH, Evaluation, evaluate, standard_error
from onebasin.paths.simplex import Point, Simplex, grid, middle
from onebasin.tasks import Task


@dataclass(frozen=True, repr=False)
class Surface:
    """What was measured at points of a simplex, the models themselves first."""

    shares: tuple[Point, ...]
    evaluations: tuple[Evaluation, ...]
    task: Mapping[str, Any]

    @property
    def count(self) -> int:
        """How many models there are."""
        return len(self.shares[0])

    @property
    def vertices(self) -> tuple[Evaluation, ...]:
        return self.evaluations[: self.count]

    def excess(self, i: int) -> float:
        """L(Σ λ_m θ_m) − Σ λ_m L(θ_m) at point i; zero at the models themselves, by definition."""
        chord = sum(w * end.loss for w, end in zip(self.shares[i], self.vertices, strict=True))
        return 0.0 if i < self.count else self.evaluations[i].loss - chord

    @property
    def highest(self) -> int:
        """The point at which the barrier is reached."""
        return max(range(len(self.shares)), key=self.excess)

    @property
    def barrier(self) -> float:
        """sup over the grid of L(Σ λ_m θ_m) − Σ λ_m L(θ_m); never below 0, its value at the models themselves."""
        return self.excess(self.highest)

    @property
    def barrier_error(self) -> float:
        """Standard error of the height, from the differences sample by sample."""
        ends = torch.stack([end.losses for end in self.vertices])
        shares = torch.tensor(self.shares[self.highest], dtype=ends.dtype)
        return standard_error(self.evaluations[self.highest].losses - shares @ ends)

    def __repr__(self) -> str:
        losses = ", ".join(f"{end.loss:.4f}" for end in self.vertices)
        where = " ".join(f"{share:.3g}" for share in self.shares[self.highest])
        return (
            f"Surface: barrier {self.barrier:.4f} ± {self.barrier_error:.4f} at λ = {where} (models {losses}; factor "
            f"path, {len(self.shares)} points; {self.task['name']}, {self.vertices[0].samples:,} samples)"
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything that was measured, as plain data."""
        return {
            "path": "factor",
            "task": dict(self.task),
            "shares": [list(point) for point in self.shares],
            "points": [self._plain(i) for i in range(len(self.shares))],
            "vertices": [self._plain(i) for i in range(self.count)],
            "midpoints": [
                {"between": list(pair), **self._plain(self._where(*pair))}
                for pair in combinations(range(self.count), 2)
            ],
            "centre": self._plain(self._where(*range(self.count))),
            "barrier": {
                "loss": self.barrier,
                "standard_error": self.barrier_error,
                "shares": list(self.shares[self.highest]),
            },
        }

    def _where(self, *members: int) -> int:
        return self.shares.index(middle(self.count, *members))

    def _plain(self, i: int) -> dict[str, Any]:
        kept = ("loss", "standard_error", "metrics", "samples")
        return {**{name: getattr(self.evaluations[i], name) for name in kept}, "excess": self.excess(i)}


def measure_simplex(
    simplex: Simplex,
    task: Task,
    side: int | None = None,
    *,
    batch_size: int = BATCH,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    tick: Callable[[Point], None] = lambda point: None,
) -> Surface:
    """Evaluate the points of `grid`."""
    points, evaluations = grid(len(simplex.models), side), []
    for point in points:
        evaluations.append(evaluate(simplex.model(point, dtype, device), task, batch_size=batch_size, device=device))
        tick(point)
    about = {"name": task.name, "kind": task.kind, **task.about, "dtype": str(dtype).removeprefix("torch.")}
    return Surface(tuple(points), tuple(evaluations), about)
