"""The records of learning, and the callbacks that receive them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """Where learning is, told every `learned.log_every` steps; as text, one line.

    `loss` is that of training since the last validation.  `barrier` is the midpoint at the last validation less the
    mean end, where all `models` have the same share.
    """

    step: int
    steps: int
    loss: float
    barrier: float
    steps_per_second: float
    seconds_left: float
    models: int = 2

    def __str__(self) -> str:
        place = "½" if self.models == 2 else "the centre"
        barrier = f"barrier at {place} about {max(self.barrier, 0.0):.4f}"
        return f"step {self.step}/{self.steps}, loss {self.loss:.4f}, {barrier}, {self.steps_per_second:.3g} steps/s"


@dataclass(frozen=True)
class Validation:
    """A look at samples held back, every `learned.eval_every` steps, the first before any step.

    `loss` is that of training since the last one; `midpoint` the loss where all models have the same share, `barrier`
    how far it lies above the mean end; `best` whether nothing before was better.
    """

    step: int
    loss: float | None
    midpoint: float
    barrier: float
    best: bool
    seconds: float

    def __str__(self) -> str:
        trained = "" if self.loss is None else f"training loss {self.loss:.4f}, "
        best = ", the best so far" if self.best else ""
        return (
            f"validation at step {self.step}: {trained}midpoint {self.midpoint:.4f}, barrier {self.barrier:.4f}{best}"
        )


@dataclass(frozen=True)
class End:
    """The end of learning.  `problem` is the kind of error that ended it, if one did; the best maps are those kept."""

    step: int
    best_step: int
    midpoint: float | None
    barrier: float | None
    seconds: float
    problem: str | None = None

    def __str__(self) -> str:
        how = f"ended by {self.problem}" if self.problem else "done"
        best = "" if self.midpoint is None else f", best at step {self.best_step}: midpoint {self.midpoint:.4f}"
        return f"learning {how} after step {self.step}{best}"


class Callback:
    """Told how learning goes.  Subclass it and write the methods you need; the first process alone calls them."""

    def on_step(self, step: Step) -> None:
        """Some steps have been taken."""

    def on_validation(self, validation: Validation) -> None:
        """The models between were measured on samples held back."""

    def on_end(self, end: End) -> None:
        """Learning is over, well or not; called once for each run that began."""


class Callbacks(Callback):
    """Several callbacks as one."""

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        self.callbacks = tuple(callbacks)

    def on_step(self, step: Step) -> None:
        for callback in self.callbacks:
            callback.on_step(step)

    def on_validation(self, validation: Validation) -> None:
        for callback in self.callbacks:
            callback.on_validation(validation)

    def on_end(self, end: End) -> None:
        for callback in self.callbacks:
            callback.on_end(end)
