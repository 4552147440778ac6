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
from onebasin.events import Callback, End, Step, Validation
from onebasin.learn.state import check_same, load_state, save_state
from onebasin.learn.steps import Steps, under, widest
from onebasin.options import write_section
from onebasin.paths.laws import PLACES, centre, of_two
from onebasin.processes.signals import Signals
from onebasin.processes.world import heeding_others
from onebasin.tasks import AnyTask, Task, parts_of


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


class Run:
    """One optimisation, kept in `folder` if there is one: `train` begins where the state there ends."""

    def __init__(self, steps: Steps, validation: AnyTask, folder: Path | None, about: dict[str, Any]) -> None:
        self.steps, self.validation, self.folder, self.options = steps, validation, folder, steps.options
        self.facts, self.about = about, {**write_section(self.options), **about}
        self.history: list[Point] = []
        self.ends: tuple[float, ...] = ()  # the loss of each model alone, as it was before learning
        self.best, self.best_step, self.stale, self.before = steps.latents(), 0, 0, 0.0
        self.models = steps.objective.models
        self._start = time.perf_counter()

    def train(self, told: Callback | None = None) -> None:
        """Optimise until the last step or the early stop, and leave the best latents in the objective."""
        told, problem = told or Callback(), None
        try:
            with heeding_others():
                self._take_up()
                self._optimise(told)
            self.steps.put(self.best)
        except BaseException as error:
            problem = type(error).__name__
            raise
        finally:
            told.on_end(self._end(problem))

    def _optimise(self, told: Callback) -> None:
        options, steps = self.options, self.steps
        self.ends = self.ends or tuple(self._validate(end, still=True) for end in torch.eye(self.models))
        if not self.history:
            self._record(None, told)
        elif self.history[-1].heights:
            steps.aim(self.history[-1].heights)
        first, start = steps.done, time.perf_counter()
        with Signals() as signals:
            while steps.done < options.steps and not 0 < options.patience <= self.stale:
                steps.one()
                last = steps.done == options.steps
                looked = last or steps.done % options.log_every == 0
                if looked:
                    speed = (steps.done - first) / (time.perf_counter() - start)
                    told.on_step(self._step(self._train_loss(), speed))
                if last or steps.done % options.eval_every == 0:
                    self._record(self._train_loss(), told)
                alone = steps.world.size == 1
                stop = steps.world.any(signals.received, steps.device) if looked or alone else None
                if last or stop or steps.done % options.save_every == 0:
                    self._save()
                if stop:
                    raise self._stopped(stop)

    def _step(self, loss: float, speed: float) -> Step:
        done, steps = self.steps.done, self.options.steps
        return Step(done, steps, loss, self._barrier(self.history[-1]), speed, (steps - done) / speed, self.models)

    def _barrier(self, point: Point) -> float:
        return point.midpoint - sum(self.ends) / self.models

    def _end(self, problem: str | None) -> End:
        best = next((point for point in self.history if point.step == self.best_step), None)
        midpoint, barrier = (best.midpoint, self._barrier(best)) if best else (None, None)
        return End(self.steps.done, self.best_step, midpoint, barrier, self._seconds(), problem)

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

    def _record(self, train_loss: float | None, told: Callback) -> None:
        """Validate; the best so far keeps its latents."""
        self.steps.objective.each_side("settle")
        if self.options.law == "highest":
            midpoint, heights = self._heights()
            self.steps.aim(heights)
        else:
            midpoint, heights = self._validate(centre(self.models)), []
        seen = self.steps.done * self.options.accumulate * self.steps.batches.seen
        now = Point(self.steps.done, seen, train_loss, midpoint, self._seconds(), heights)
        better = all(now.lowered < point.lowered for point in self.history)
        self.history.append(now)
        self.stale = 0 if better else self.stale + 1
        if better:
            self.best_step, self.best = self.steps.done, self.steps.latents()
        self.steps.forget()
        told.on_validation(Validation(now.step, train_loss, midpoint, self._barrier(now), better, now.seconds))

    def _heights(self) -> tuple[float, list[float]]:
        """The loss of the midpoint, and the heights of the path over the straight line between its ends."""
        losses = [self._validate(at) for at in of_two(PLACES)]
        lines = of_two(PLACES) @ torch.tensor(self.ends, dtype=torch.float64)
        return losses[len(losses) // 2], [loss - float(line) for loss, line in zip(losses, lines, strict=True)]

    @torch.no_grad()
    def _validate(self, share: Tensor, *, still: bool = False) -> float:
        """The loss at λ on all of the validation; with `still`, of the models as they were before learning."""
        objective, device = self.steps.objective, self.steps.device
        training = objective.model.training
        objective.model.eval()
        share = share.to(device, objective.dtype)
        call = objective.at(share, still=still)
        loss = 0.0
        for _, task, weight in parts_of(self.validation):
            assert isinstance(task, Task)
            loss += weight * self._mean(task, call, share)
        objective.model.train(training)
        return self.steps.world.agreed(loss, device)

    def _mean(self, task: Task, call: Callable[..., Tensor], share: Tensor) -> float:
        """The loss that `call` finds on one task; without a truth the end points tell it."""
        objective, device = self.steps.objective, self.steps.device
        total, count = torch.zeros((), dtype=widest(device), device=device), 0.0
        for inputs, marks in task.batches(max(self.options.batch // self.steps.world.size, 1)):
            labels = marks if task.labelled else None
            weight = objective.counted(inputs, labels).item()
            total += call(inputs, objective.target(inputs, labels, share)).to(total.dtype) * weight
            count += weight
        return float(total) / count

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
        again = "go on (command line: with --resume)" if self.folder else "begin anew"
        what = f"Learning was stopped by {signal} after step {self.steps.done}"
        return Stopped(what, found=self._kept(), next_step=f"run the same again to {again}")
