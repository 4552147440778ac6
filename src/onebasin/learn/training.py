"""The optimisation: steps, validation, the state, and how a run ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from onebasin.errors import Diverged, Stopped
from onebasin.learn.batches import Batches
from onebasin.learn.laws import draw
from onebasin.learn.objective import Objective
from onebasin.learn.options import LearnedMatching
from onebasin.learn.parallel import World
from onebasin.learn.permuting import Reassignment
from onebasin.learn.signals import Signals
from onebasin.learn.state import check_same, load_state, save_state
from onebasin.tasks import Task

BATCH = 250  # samples of a validation batch


@dataclass(frozen=True)
class Point:
    """One validation: steps taken, samples (or tokens) seen, mean training loss since the last, midpoint loss."""

    step: int
    seen: int
    train_loss: float
    midpoint: float
    seconds: float


@dataclass(frozen=True)
class Progress:
    """Where a run is; as text, one line."""

    step: int
    steps: int
    loss: float
    barrier: float | None
    seconds_left: float

    def __str__(self) -> str:
        barrier = "" if self.barrier is None else f", barrier at ½ about {max(self.barrier, 0.0):.4f}"
        minutes, seconds = divmod(round(self.seconds_left), 60)
        return f"step {self.step}/{self.steps}, loss {self.loss:.4f}{barrier}, {minutes}:{seconds:02d} left"


class Run:
    """One optimisation of an objective.  `train` may be called once; it begins where the state in `folder` ends."""

    def __init__(
        self,
        objective: Objective,
        batches: Batches,
        validation: Task,
        options: LearnedMatching,
        *,
        world: World,
        folder: Path | None = None,
        about: dict[str, Any] | None = None,
    ) -> None:
        self.objective, self.batches, self.validation, self.options = objective, batches, validation, options
        self.world, self.folder = world, folder
        self.about = {"options": options.as_dict(), "processes": world.size, **(about or {})}
        self.learned = objective.learned()
        self.device = self.learned[0].device
        for p in self.learned if options.accumulate > 1 else ():
            p.grad = torch.zeros_like(p)  # a sum must not begin in memory that a CUDA graph writes to again
        self.weights = draw(options.law, options.steps * options.accumulate, options.seed).to(
            self.device, objective.dtype
        )
        self.optimizer = _optimizer(self.learned, options)
        self.permutations = Reassignment(objective, options.assign_every)
        self.loss = _compiled(objective, options, self.device)
        self.step, self.best_step, self.stale, self.before = 0, 0, 0, 0.0
        self.history: list[Point] = []
        self.best = self._latents()
        self.total = torch.zeros((), dtype=torch.float64, device=self.device)  # of the loss since the last validation
        self.counted = 0

    # ---- one step

    def one_step(self) -> None:
        """Latents one step further.  Nothing here waits for the device."""
        options = self.options
        self.permutations.refresh(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = options.lr * rate(self.step, options)
        self.optimizer.zero_grad(set_to_none=options.accumulate == 1)
        for k in range(options.accumulate):
            n = self.step * options.accumulate + k
            inputs, labels = self.batches(n, self.device)
            self.total += self.loss(inputs, labels, self.weights[n].clone())
        gradients = [p.grad for p in self.learned if p.grad is not None]
        if options.accumulate > 1:
            torch._foreach_div_(gradients, options.accumulate)
        self.world.average(gradients)
        if options.clip:
            nn.utils.clip_grad_norm_(self.learned, options.clip)
        self.optimizer.step()
        self.step += 1
        self.counted += options.accumulate

    # ---- the course

    def train(self, tick: Callable[[Progress], None] = lambda progress: None) -> None:
        """Optimise until the last step or the early stop, and leave the best latents in the objective."""
        options, start = self.options, time.perf_counter()
        self._take_up()
        ends = [self._validate(weight) for weight in (0.0, 1.0)]
        if not self.history:
            self._record(self._validate(0.5), math.nan, 0.0)
        first = self.step
        with Signals() as signals:
            while self.step < options.steps and not self._stale():
                self.one_step()
                due = self.step == options.steps
                if due or self.step % options.log_every == 0:
                    loss = self._train_loss()
                    seconds = time.perf_counter() - start
                    left = seconds / (self.step - first) * (options.steps - self.step)
                    tick(Progress(self.step, options.steps, loss, self.history[-1].midpoint - sum(ends) / 2, left))
                if due or self.step % options.eval_every == 0:
                    self._record(self._validate(0.5), self._train_loss(), self.before + time.perf_counter() - start)
                if due or self.step % options.save_every == 0 or signals.received:
                    self._save(self.before + time.perf_counter() - start)
                if signals.received:
                    raise self._stopped(signals.received)
        self._put_back(self.best)

    def _stale(self) -> bool:
        return 0 < self.options.patience <= self.stale

    def _record(self, midpoint: float, train_loss: float, seconds: float) -> None:
        """Note a validation; the best midpoint so far keeps its latents."""
        rows = self.options.batch * self.options.accumulate
        per_row = self.batches.data.length if hasattr(self.batches.data, "length") else 1
        better = not self.history or midpoint < self.history_best()
        self.history.append(Point(self.step, self.step * rows * per_row, train_loss, midpoint, seconds))
        self.stale = 0 if better else self.stale + 1
        if better:
            self.best_step, self.best = self.step, self._latents()
        self.total.zero_()
        self.counted = 0

    def history_best(self) -> float:
        return min(point.midpoint for point in self.history)

    def _train_loss(self) -> float:
        loss = float(self.total) / max(self.counted, 1)
        if not math.isfinite(loss):
            raise Diverged(
                "The loss is not finite",
                expected="a finite cross entropy",
                found=f"{loss} at step {self.step}; {self._kept()}",
                next_step="use a smaller lr, or dtype float32",
            )
        return loss

    @torch.no_grad()
    def _validate(self, weight: float) -> float:
        """The loss at λ on the whole validation task."""
        model = self.objective.model
        training, total, count = model.training, torch.zeros((), dtype=torch.float64, device=self.device), 0
        model.eval()
        call = self.objective.at(torch.tensor(weight, dtype=self.objective.dtype, device=self.device))
        for inputs, labels in self.validation.batches(BATCH):
            total += call(inputs, labels).double() * labels.numel()
            count += labels.numel()
        model.train(training)
        return self.world.agreed(float(total) / count, self.device)

    # ---- the state

    def _latents(self) -> dict[str, Tensor]:
        return {name: x.detach().clone() for name, x in self.objective.sides.state_dict().items()}

    def _put_back(self, latents: dict[str, Tensor]) -> None:
        self.objective.sides.load_state_dict(latents)

    def _save(self, seconds: float) -> None:
        if self.folder is None:
            return
        if not all(bool(p.isfinite().all()) for p in self.learned):
            raise Diverged(
                "The latents are not finite", found=f"step {self.step}; {self._kept()}", next_step="use a smaller lr"
            )
        if self.world.rank:
            return
        tensors = {f"latents/{name}": x for name, x in self._latents().items()}
        tensors |= {f"best/{name}": x for name, x in self.best.items()}
        tensors |= {f"pending/{name}": x for name, x in self.permutations.pending().items()}
        for i, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{i}/{name}": x for name, x in state.items()}
        tensors |= {"random/cpu": torch.get_rng_state(), "loss": self.total}
        if self.device.type == "cuda":
            tensors["random/cuda"] = torch.cuda.get_rng_state(self.device)
        numbers = {
            "step": self.step, "best_step": self.best_step, "stale": self.stale, "counted": self.counted,
            "seconds": seconds, "history": [asdict(point) for point in self.history], "about": self.about,
        }  # fmt: skip
        save_state(self.folder, tensors, numbers)

    def _take_up(self) -> None:
        """Continue the run kept in the folder, if there is one."""
        found = None if self.folder is None else load_state(self.folder)
        if found is None or self.folder is None:
            return
        tensors, numbers = found
        check_same(_flat(self.about), _flat(numbers["about"]), self.folder)
        self._put_back(_under(tensors, "latents"))
        self.best = {name: x.to(self.device) for name, x in _under(tensors, "best").items()}
        self.permutations.take_up(_under(tensors, "pending"))
        states: dict[int, dict[str, Tensor]] = {}
        for name, x in _under(tensors, "optimizer").items():
            i, _, part = name.partition("/")
            states.setdefault(int(i), {})[part] = x
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": states})
        torch.set_rng_state(tensors["random/cpu"])
        if "random/cuda" in tensors and self.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["random/cuda"], self.device)
        self.total.copy_(tensors["loss"])
        self.step, self.best_step, self.stale = numbers["step"], numbers["best_step"], numbers["stale"]
        self.counted, self.before = numbers["counted"], numbers["seconds"]
        self.history = [Point(**point) for point in numbers["history"]]

    def _kept(self) -> str:
        return "nothing is kept" if self.folder is None else f"the last good state is kept in {self.folder}"

    def _stopped(self, signal: str) -> Stopped:
        step = "run the same command again to go on" if self.folder else "give a folder for the state next time"
        return Stopped(f"Learning was stopped by {signal} after step {self.step}", found=self._kept(), next_step=step)


def rate(step: int, options: LearnedMatching) -> float:
    """The learning rate of a step as a share of `lr`: linear warm-up, then a half cosine to zero (or constant)."""
    warm = round(options.warmup * options.steps)
    if step < warm:
        return (step + 1) / (warm + 1)
    if options.schedule == "constant":
        return 1.0
    return (1 + math.cos(math.pi * (step - warm) / max(options.steps - warm, 1))) / 2


def _optimizer(learned: list[nn.Parameter], options: LearnedMatching) -> torch.optim.Optimizer:
    kind = torch.optim.AdamW if options.optimizer == "adamw" else torch.optim.Adam
    fused = learned[0].is_cuda
    return kind(learned, lr=options.lr, weight_decay=options.weight_decay, fused=fused)


def _compiled(objective: Objective, options: LearnedMatching, device: torch.device) -> Callable[..., Tensor]:
    """A function that adds to the gradients and returns the loss."""
    mode = options.compile
    if mode == "auto":
        mode = "default" if device.type == "cuda" else "off"
    if mode == "off":
        return lambda inputs, labels, weight: objective(inputs, labels, weight, back=True)
    torch.compiler.reset()  # what was compiled for other objectives would count against the limit of recompilations
    forward = torch.compile(objective, mode=mode, dynamic=False)

    def step(inputs: dict[str, Tensor], labels: Tensor, weight: Tensor) -> Tensor:
        loss: Tensor = forward(inputs, labels, weight)
        loss.backward()
        return loss.detach()

    return step


def _under(tensors: dict[str, Tensor], front: str) -> dict[str, Tensor]:
    return {name.removeprefix(f"{front}/"): x for name, x in tensors.items() if name.startswith(f"{front}/")}


def _flat(about: dict[str, Any]) -> dict[str, Any]:
    return {**about["options"], **{name: x for name, x in about.items() if name != "options"}}
