"""Loss between models, and the barrier it shows: a curve between two, a surface over the averages of more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Self

import torch

from onebasin.errors import OnebasinError
from onebasin.landscape.evaluate import BATCH, Evaluation, error_of, evaluate
from onebasin.landscape.teacher import Teacher
from onebasin.landscape.views import as_html, draw, rows
from onebasin.paths import FactorPath
from onebasin.paths.points import Point, grid, middle, point, vertices
from onebasin.tasks import AnyTask

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, repr=False)
class Surface:
    """What was measured at points between models, the models themselves among them, on a task."""

    points: tuple[Point, ...]
    evaluations: tuple[Evaluation, ...]
    path: str
    task: Mapping[str, Any]

    @property
    def count(self) -> int:
        """How many models there are."""
        return len(self.points[0])

    @property
    def vertices(self) -> tuple[Evaluation, ...]:
        """What was measured of the models themselves."""
        return tuple(self.evaluations[self.points.index(place)] for place in vertices(self.count))

    def excess(self, i: int) -> float:
        """L(Σ λ_m θ_m) − Σ λ_m L(θ_m) at point i; zero at the models themselves, whatever rounding says."""
        chord = sum(share * end.loss for share, end in zip(self.points[i], self.vertices, strict=True))
        return 0.0 if max(self.points[i]) == 1 else self.evaluations[i].loss - chord

    @property
    def highest(self) -> int:
        """The point at which the barrier is reached."""
        return max(range(len(self.points)), key=self.excess)

    @property
    def barrier(self) -> float:
        """sup over the points of L(Σ λ_m θ_m) − Σ λ_m L(θ_m); never below 0, its value at the models themselves."""
        return self.excess(self.highest)

    @property
    def barrier_error(self) -> float:
        """Standard error of the height, from the differences sample by sample."""
        chord = [(-share, end) for share, end in zip(self.points[self.highest], self.vertices, strict=True)]
        return error_of([(1.0, self.evaluations[self.highest]), *chord])

    @property
    def parts(self) -> dict[str, Self]:
        """What was measured on each of several tasks, by name; it itself is their weighted mean."""
        return {
            name: replace(
                self, evaluations=tuple(one.parts[name] for one in self.evaluations),
                task={**self.task["tasks"][name], "dtype": self.task["dtype"]},
            )
            for name in self.evaluations[0].parts
        }  # fmt: skip

    def __repr__(self) -> str:
        losses = ", ".join(f"{end.loss:.4f}" for end in self.vertices)
        where = " ".join(f"{share:.3g}" for share in self.points[self.highest])
        return (
            f"{type(self).__name__}: barrier {self.barrier:.4f} ± {self.barrier_error:.4f} at shares {where} (models "
            f"{losses}; {self.path} path, {len(self.points)} points; {self.task['name']}, "
            f"{self.vertices[0].samples:,} samples)"
        )

    def _repr_html_(self) -> str:
        return as_html(self)

    def to_dataframe(self) -> DataFrame:
        """One row for each point: shares, loss, standard_error, excess (its rise) and metrics.  Needs pandas."""
        try:
            from pandas import DataFrame
        except ImportError as error:
            step = "pip install pandas, or use .as_dict()"
            raise OnebasinError("A data frame needs the library pandas", found="none", next_step=step) from error
        return DataFrame(rows(self))

    def as_dict(self) -> dict[str, Any]:
        """Everything that was measured, as plain data."""
        return {
            "path": self.path,
            "task": dict(self.task),
            "shares": [list(place) for place in self.points],
            "points": [self._plain(i) for i in range(len(self.points))],
            "vertices": [self._plain(self.points.index(place)) for place in vertices(self.count)],
            "midpoints": [
                {"between": list(pair), **self._plain(self.points.index(middle(self.count, *pair)))}
                for pair in combinations(range(self.count), 2)
            ],
            "centre": self._plain(self.points.index(middle(self.count, *range(self.count)))),
            "barrier": {**self._height(), "shares": list(self.points[self.highest])},
            **self._tasks(),
        }

    def _tasks(self) -> dict[str, Any]:
        """Of several tasks what was measured on each."""
        return {"tasks": {name: part.as_dict() for name, part in self.parts.items()}} if self.parts else {}

    def _height(self) -> dict[str, float]:
        return {"loss": self.barrier, "standard_error": self.barrier_error}

    def _plain(self, i: int) -> dict[str, Any]:
        figures = self.evaluations[i].plain()
        figures.pop("tasks", None)  # they have curves of their own
        return {**figures, "excess": self.excess(i)}


class Curve(Surface):
    """The surface of two models: from A, the first point, to B, the last; `shares` are those of B."""

    @property
    def shares(self) -> tuple[float, ...]:
        return tuple(of_b for _, of_b in self.points)

    @property
    def barrier_at(self) -> float:
        """The share of B at which the barrier is reached."""
        return self.shares[self.highest]

    def plot(self, axes: Axes | None = None, *, metric: str = "loss", **style: Any) -> Axes:
        """Draw the loss, or a metric, into `axes` or a new picture; `style` is matplotlib's, such as a label."""
        known = [name for name in rows(self)[0] if not name.startswith("share_")]
        if metric not in known:
            step = f"take one of these: {', '.join(known)}"
            raise OnebasinError(f"The curve has no metric {metric}", found=metric, next_step=step)
        return draw(self, axes, metric, **style)

    def as_dict(self) -> dict[str, Any]:
        """Everything that was measured, as plain data."""
        plain = [self._plain(i) for i in range(len(self.points))]
        return {
            "path": self.path,
            "task": dict(self.task),
            "shares": list(self.shares),
            "points": plain,
            "ends": {"a": plain[0], "b": plain[-1]},
            "barrier": {**self._height(), "share": self.barrier_at},
            **self._tasks(),
        }


def measure(
    path: FactorPath,
    task: AnyTask,
    points: int | None = None,
    *,
    shares: Sequence[float | Sequence[float]] | None = None,
    batch_size: int = BATCH,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    tick: Callable[[Point], None] = lambda place: None,
) -> Surface:
    """Evaluate the points of `grid`, or those given, which must hold the models themselves.

    Without labels the loss at a point is how far it is from what the models say there, each by its share.  Of several
    tasks what is measured is the weighted mean.
    """
    count, evaluations = len(path.models), []
    chosen = grid(count, points) if shares is None else [point(place, count) for place in shares]
    if not set(vertices(count)) <= set(chosen):
        step = "begin with 0 and end with 1: the barrier stands on the models themselves"
        raise OnebasinError("The grid must hold all models", expected="0, ..., 1", found=shares, next_step=step)
    teacher = None if task.scored else Teacher(path.models, task.kind).to(device)
    for place in chosen:
        model, target = path.model(place, dtype, device), None if teacher is None else teacher.at(place)
        evaluations.append(evaluate(model, task, target=target, batch_size=batch_size, device=device))
        tick(place)
    about = {"name": task.name, "kind": task.kind, **task.about, "dtype": str(dtype).removeprefix("torch.")}
    return (Curve if count == 2 else Surface)(tuple(chosen), tuple(evaluations), path.name, about)
