"""Loss along a path, and the barrier it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onebasin.errors import OnebasinError
from onebasin.landscape.evaluate import BATCH, Evaluation, evaluate, standard_error
from onebasin.paths import Path
from onebasin.tasks import Task

POINTS = 11


@dataclass(frozen=True, repr=False)
class Curve:
    """What was measured at each λ (share of B) of a path on a task; the first is A, the last B."""

    shares: tuple[float, ...]
    evaluations: tuple[Evaluation, ...]
    path: str
    task: Mapping[str, Any]

    @property
    def ends(self) -> tuple[Evaluation, Evaluation]:
        return self.evaluations[0], self.evaluations[-1]

    def chord(self, share: float) -> float:
        """(1−λ) L(A) + λ L(B)."""
        a, b = self.ends
        return (1 - share) * a.loss + share * b.loss

    def _highest(self) -> int:
        excess = [e.loss - self.chord(w) for w, e in zip(self.shares, self.evaluations, strict=True)]
        excess[0] = excess[-1] = 0.0  # by definition; rounding must not say otherwise
        return max(range(len(excess)), key=excess.__getitem__)

    @property
    def barrier_at(self) -> float:
        """The share at which the barrier is reached."""
        return self.shares[self._highest()]

    @property
    def barrier(self) -> float:
        """max over the grid of L(λ) − [(1−λ) L(A) + λ L(B)] (P1, equation 1); never below 0, its value at both ends."""
        highest = self._highest()
        inside = 0 < highest < len(self.shares) - 1
        return self.evaluations[highest].loss - self.chord(self.shares[highest]) if inside else 0.0

    @property
    def barrier_error(self) -> float:
        """Standard error of the height at `barrier_at`, from the differences sample by sample."""
        (a, b), share = self.ends, self.barrier_at
        return standard_error(self.evaluations[self._highest()].losses - torch.lerp(a.losses, b.losses, share))

    def __repr__(self) -> str:
        a, b = self.ends
        return (
            f"Curve: barrier {self.barrier:.4f} ± {self.barrier_error:.4f} at λ = {self.barrier_at:.3g} (end points "
            f"{a.loss:.4f} and {b.loss:.4f}; {self.path} path, {len(self.shares)} points; {self.task['name']}, "
            f"{a.samples:,} samples)"
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything that was measured, as plain data."""
        return {
            "path": self.path,
            "task": dict(self.task),
            "shares": list(self.shares),
            "points": [_plain(e) for e in self.evaluations],
            "ends": {"a": _plain(self.ends[0]), "b": _plain(self.ends[1])},
            "barrier": {"loss": self.barrier, "standard_error": self.barrier_error, "share": self.barrier_at},
        }


def _plain(evaluation: Evaluation) -> dict[str, Any]:
    return {name: getattr(evaluation, name) for name in ("loss", "standard_error", "metrics", "samples")}


def grid(points: int) -> tuple[float, ...]:
    """0, 1/(points−1), …, 1."""
    if points < 2:
        step = "ask for 3 or more to see anything between the ends"
        raise OnebasinError("A curve has two ends", expected="2 points or more", found=points, next_step=step)
    return tuple(i / (points - 1) for i in range(points))


def measure(
    path: Path,
    task: Task,
    points: int = POINTS,
    *,
    shares: Sequence[float] | None = None,
    batch_size: int = BATCH,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    tick: Callable[[float], None] = lambda share: None,
) -> Curve:
    """Evaluate the path at `points` evenly spaced shares, or at those given, which must run from 0 to 1."""
    chosen = grid(points) if shares is None else tuple(shares)
    if chosen[0] != 0 or chosen[-1] != 1:
        step = "begin with 0 and end with 1: the barrier stands on both end points"
        raise OnebasinError("The grid must hold both ends", expected="0, ..., 1", found=chosen, next_step=step)
    evaluations = []
    for share in chosen:
        model = path.model(share, dtype, device)
        evaluations.append(evaluate(model, task, batch_size=batch_size, device=device))
        tick(share)
    about = {"name": task.name, "kind": task.kind, **task.about, "dtype": str(dtype).removeprefix("torch.")}
    return Curve(chosen, tuple(evaluations), path.name, about)
