"""Straight-through permutations solved beside the run: assignments take CPU time that no step waits for."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from torch import Tensor

from onebasin.learn.coordinates import Coordinates
from onebasin.learn.objective import Objective
from onebasin.linalg import assign


class Reassignment:
    """Every `every` steps the permutations become those of the latents `every` steps ago.

    The delay is fixed, so that a run that is taken up again takes the same course.
    """

    def __init__(self, objective: Objective, every: int) -> None:
        self.every = every
        self.sides = [side for side in objective.sides if isinstance(side, Coordinates) and side.assignments()]
        self._pool = ThreadPoolExecutor(1) if self.sides else None
        self._pending: dict[str, Future[Tensor]] = {}

    def refresh(self, step: int) -> None:
        if self._pool is None or step % self.every:
            return
        solved = self.pending()
        for i, side in enumerate(self.sides):
            for stack, (scores, index) in side.assignments().items():
                name = f"{i}/{stack}"
                if name in solved:
                    index.copy_(solved[name])
                self._pending[name] = self._pool.submit(assign, scores.cpu())

    def pending(self) -> dict[str, Tensor]:
        """What the next refresh will take, waited for."""
        return {name: future.result() for name, future in self._pending.items()}

    def take_up(self, pending: dict[str, Tensor]) -> None:
        for name, index in pending.items():
            self._pending[name] = Future()
            self._pending[name].set_result(index.clone())
