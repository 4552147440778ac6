"""TensorBoard and Weights & Biases as callbacks; both are extras, imported when they are asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from onebasin.errors import BadRecipe
from onebasin.events.records import Callback, End, Step, Validation

Log = Callable[[dict[str, float], int], None]  # numbers by name, and the step
Close = Callable[[bool], None]  # whether all went well


class Tracker(Callback):
    """Hands numbers on; `begin` opens what takes them with the first, so a run that is refused leaves nothing."""

    def __init__(self, begin: Callable[[], tuple[Log, Close]]) -> None:
        self._begin = begin
        self._open: tuple[Log, Close] | None = None

    def _log(self, step: int, **numbers: float) -> None:
        self._open = self._open or self._begin()
        self._open[0]({name.replace("__", "/"): value for name, value in numbers.items()}, step)

    def on_step(self, step: Step) -> None:
        self._log(step.step, learning__loss=step.loss, learning__steps_per_second=step.steps_per_second)

    def on_validation(self, validation: Validation) -> None:
        self._log(validation.step, validation__midpoint=validation.midpoint, validation__barrier=validation.barrier)

    def on_end(self, end: End) -> None:
        if self._open is not None:
            self._open[1](end.problem is None)
        self._open = None


def tensorboard(folder: str) -> Tracker:
    """Event files in a folder, for `tensorboard --logdir FOLDER`."""
    _imported("tensorboard")

    def begin() -> tuple[Log, Close]:
        from torch.utils.tensorboard import SummaryWriter

        writer: Any = SummaryWriter(str(Path(folder).expanduser()))

        def log(numbers: dict[str, float], step: int) -> None:
            for name, value in numbers.items():
                writer.add_scalar(name, value, step)
            writer.flush()

        return log, lambda well: writer.close()

    return Tracker(begin)


def wandb(project: str) -> Tracker:
    """A run of a project; with WANDB_MODE=offline it stays on this machine."""
    module: Any = _imported("wandb")

    def begin() -> tuple[Log, Close]:
        run = module.init(project=project, job_type="onebasin")
        return lambda numbers, step: run.log(numbers, step=step), lambda well: run.finish(exit_code=int(not well))

    return Tracker(begin)


KINDS: dict[str, Callable[[str], Tracker]] = {"tensorboard": tensorboard, "wandb": wandb}


def tracker(name: str) -> Callback:
    """The tracker that "tensorboard:FOLDER" or "wandb:PROJECT" names."""
    kind, _, where = name.partition(":")
    if kind not in KINDS or not where:
        expected = "tensorboard:FOLDER or wandb:PROJECT"
        raise BadRecipe(f"{name} is no place to log to", expected=expected, found=name, next_step="write it like that")
    return KINDS[kind](where)


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        step = f'install it: pip install "onebasin[{name}]"'
        raise BadRecipe(f"{name} is not installed", expected="an extra of onebasin", next_step=step) from error
