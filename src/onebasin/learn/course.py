"""The course of a run: steps, validations, the best latents, the state on disk, and how it ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from onebasin.errors import Diverged, Stopped
from onebasin.learn.state import check_same, load_state, save_state
from onebasin.learn.steps import Steps, under
from onebasin.options import write_section
from onebasin.paths.laws import PLACES, centre, of_two
from onebasin.processes import Signals
from onebasin.tasks import IGNORED, Task


@dataclass(frozen=True)
class Point:
    """One validation: steps taken, samples (of texts: tokens) seen, training loss since the last, midpoint loss.

    The midpoint of several models is their centre, where all shares are alike.  `heights` are those of the path over
    the line between its ends, at the places of the law "highest", for runs by that law.
    """

    step: int
    seen: int
    train_loss: float | None
    midpoint: float
    seconds: float
    heights: list[float] = field(default_factory=list)

    @property
    def lowered(self) -> float:
        """What is to become smaller: the height of the highest place, or the midpoint."""
        return max(self.heights, default=self.midpoint)


@dataclass(frozen=True)
class Progress:
    """Where a run is; as text, one line.

    `barrier` is the midpoint on the validation samples less the mean end, where all `models` have the same share.
    """

    step: int
    steps: int
    loss: float
    barrier: float
    seconds_left: float
    models: int = 2

    def __str__(self) -> str:
        minutes, seconds = divmod(round(self.seconds_left), 60)
        place = "½" if self.models == 2 else "the centre"
        barrier = f"barrier at {place} about {max(self.barrier, 0.0):.4f}"
        return f"step {self.step}/{self.steps}, loss {self.loss:.4f}, {barrier}, {minutes}:{seconds:02d} left"


class Run:
    """One optimisation, kept in `folder` if there is one: `train` begins where the state there ends."""

    def __init__(self, steps: Steps, validation: Task, folder: Path | None, about: dict[str, Any]) -> None:
        self.steps, self.validation, self.folder, self.options = steps, validation, folder, steps.options
        self.facts, self.about = about, {**write_section(self.options), **about}
        self.history: list[Point] = []
        self.ends: tuple[float, ...] = ()  # the loss of each model alone, as it was before learning
        self.best, self.best_step, self.stale, self.before = steps.latents(), 0, 0, 0.0
        self.models = len(steps.objective.ends)
        self._start = time.perf_counter()

    def train(self, tick: Callable[[Progress], None] = lambda progress: None) -> None:
        """Optimise until the last step or the early stop, and leave the best latents in the objective."""
        options, steps = self.options, self.steps
        self._take_up()
        self.ends = self.ends or tuple(self._validate(end, still=True) for end in torch.eye(self.models))
        mean_end = sum(self.ends) / self.models
        if not self.history:
            self._record(None)
        elif self.history[-1].heights:
            steps.aim(self.history[-1].heights)
        first, start = steps.done, time.perf_counter()
        with Signals() as signals:
            while steps.done < options.steps and not 0 < options.patience <= self.stale:
                steps.one()
                last = steps.done == options.steps
                told = last or steps.done % options.log_every == 0
                if told:
                    left = (time.perf_counter() - start) / (steps.done - first) * (options.steps - steps.done)
                    barrier = self.history[-1].midpoint - mean_end
                    tick(Progress(steps.done, options.steps, self._train_loss(), barrier, left, self.models))
                if last or steps.done % options.eval_every == 0:
                    self._record(self._train_loss())
                alone = steps.world.size == 1
                stop = steps.world.any(signals.received, steps.device) if told or alone else None
                if last or stop or steps.done % options.save_every == 0:
                    self._save()
                if stop:
                    raise self._stopped(stop)
        steps.put(self.best)

    def _seconds(self) -> float:
        return self.before + time.perf_counter() - self._start

    def _train_loss(self) -> float:
        loss = self.steps.mean_loss()
        if not math.isfinite(loss):
            raise Diverged(
                "The loss is not finite",
                expected="a finite cross entropy",
                found=f"{loss} at step {self.steps.done}; {self._kept()}",
                next_step="use a smaller lr, or dtype float32",
            )
        return loss

    def _record(self, train_loss: float | None) -> None:
        """Validate; the best so far keeps its latents."""
        self.steps.objective.each_side("settle")
        if self.options.law == "highest":
            midpoint, heights = self._heights()
            self.steps.aim(heights)
        else:
            midpoint, heights = self._validate(centre(self.models)), []
        seen = self.steps.done * self.options.batch * self.options.accumulate * self.steps.batches.data.length
        now = Point(self.steps.done, seen, train_loss, midpoint, self._seconds(), heights)
        better = all(now.lowered < point.lowered for point in self.history)
        self.history.append(now)
        self.stale = 0 if better else self.stale + 1
        if better:
            self.best_step, self.best = self.steps.done, self.steps.latents()
        self.steps.forget()

    def _heights(self) -> tuple[float, list[float]]:
        """The loss of the midpoint, and the heights of the path over the straight line between its ends."""
        losses = [self._validate(at) for at in of_two(PLACES)]
        lines = of_two(PLACES) @ torch.tensor(self.ends, dtype=torch.float64)
        return losses[len(losses) // 2], [loss - float(line) for loss, line in zip(losses, lines, strict=True)]

    @torch.no_grad()
    def _validate(self, share: Tensor, *, still: bool = False) -> float:
        """The loss at λ on the whole validation task; with `still`, of the models as they were before learning."""
        objective, device = self.steps.objective, self.steps.device
        training, total, count = objective.model.training, torch.zeros((), dtype=torch.float64, device=device), 0
        objective.model.eval()
        share = share.to(device, objective.dtype)
        call = objective.at(share, still=still)
        for inputs, labels in self.validation.batches(max(self.options.batch // self.steps.world.size, 1)):
            weight = int((labels != IGNORED).sum()) if objective.by_label else len(labels)
            total += call(inputs, objective.target(inputs, labels, share)).double() * weight
            count += weight
        objective.model.train(training)
        return self.steps.world.agreed(float(total) / count, device)

    def _save(self) -> None:
        if self.folder is None:
            return
        if not all(bool(p.isfinite().all()) for p in self.steps.learned):
            found = f"step {self.steps.done}; {self._kept()}"
            raise Diverged("The latents are not finite", found=found, next_step="use a smaller lr")
        if self.steps.world.rank:
            return
        numbers = {
            "step": self.steps.done, "counted": self.steps.counted, "best_step": self.best_step, "stale": self.stale,
            "ends": self.ends, "seconds": self._seconds(), "history": [asdict(point) for point in self.history],
            "about": self.about,
        }  # fmt: skip
        save_state(self.folder, self.steps.tensors() | {f"best/{n}": x for n, x in self.best.items()}, numbers)

    def _take_up(self) -> None:
        """Continue the run kept in the folder, if there is one."""
        found = None if self.folder is None else load_state(self.folder)
        if found is None or self.folder is None:
            return
        tensors, numbers = found
        check_same(self.about, numbers["about"], self.folder)
        self.steps.take_up(tensors, numbers["step"], numbers["counted"])
        self.best = {name: x.to(self.steps.device) for name, x in under(tensors, "best").items()}
        self.best_step, self.stale, self.before = numbers["best_step"], numbers["stale"], numbers["seconds"]
        self.history = [Point(**point) for point in numbers["history"]]
        self.ends = tuple(numbers["ends"])

    def _kept(self) -> str:
        return "nothing is kept" if self.folder is None else f"the last good state is kept in {self.folder}"

    def _stopped(self, signal: str) -> Stopped:
        step = (
            "run the same again to go on (command line: with --resume)"
            if self.folder
            else "give a folder for the state next time"
        )
        return Stopped(
            f"Learning was stopped by {signal} after step {self.steps.done}", found=self._kept(), next_step=step
        )
