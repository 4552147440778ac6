"""Straight-through permutations solved beside the run: assignments take CPU time that no step waits for."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from torch import Tensor, nn

from onebasin.learn.coordinates import Coordinates
from onebasin.learn.stacks import Beside
from onebasin.linalg import assign
from onebasin.papers.permutations import StraightThrough


class Reassignment(Beside):
    """Every `every` steps the permutations become those of the latents `every` steps ago.

    The delay is fixed, so that a run that is taken up again takes the same course.
    """

    def __init__(self, sides: nn.ModuleList, every: int) -> None:
        super().__init__(sides)
        self.every, self._pool = every, ThreadPoolExecutor(1)
        self._pending: dict[str, Future[Tensor]] = {}

    def refresh(self, step: int) -> None:
        """Take what is solved, and begin to solve for the latents as they are now."""
        if step % self.every:
            return
        solved = self.pending()
        for i, side in enumerate(self.sides):
            assert isinstance(side, Coordinates)
            for stack, latent in side.latents.items():
                if isinstance(latent, StraightThrough):
                    name, parts = f"{i}/{stack}", side.parts(stack)
                    if name in solved:
                        parts["index"].copy_(solved[name])
                    self._pending[name] = self._pool.submit(assign, latent.scores(parts["z"].detach()).cpu())

    def pending(self) -> dict[str, Tensor]:
        """What the next refresh will take, waited for."""
        return {name: future.result() for name, future in self._pending.items()}

    def take_up(self, pending: dict[str, Tensor]) -> None:
        """Go on from what `pending` gave."""
        for name, index in pending.items():
            self._pending[name] = Future()
            self._pending[name].set_result(index.clone())
