"""From an entry to its table: train what is not trained yet, measure what is not measured yet, write after each."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from onebasin.checkpoint import whole_folder
from onebasin.demo.training import no_bars
from onebasin.methods.method import Tick, silent
from onebasin.processes.devices import quick_products
from onebasin.reproduce.data import needed, prepare, read
from onebasin.reproduce.folder import MADE, MODELS, check_folder, discard, found_before, trained_before, write_json
from onebasin.reproduce.foretelling import AT_ONCE
from onebasin.reproduce.models import fresh
from onebasin.reproduce.parts import renew
from onebasin.reproduce.pausing import Clock, OutOfTime, Progress
from onebasin.reproduce.plan import Entry, Member, Plan, Row, Training
from onebasin.reproduce.tables import draw, report_of, table_of
from onebasin.reproduce.training import train
from onebasin.reproduce.workers import Result, attempt, processes, result_of


def reproduce(
    entry: Entry, budget: str, seeds: int, out: Path, data: Path | None, device: torch.device, tick: Tick = silent,
    at_once: int | None = None, minutes: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Everything of an entry in the folder `out`, which may hold parts of it from an earlier run.

    After so many `minutes` it ends where it is, with everything that is done in the folder.
    """
    plan = entry.plan(budget, seeds)
    names = dict.fromkeys(training.data for training in plan.trainings)
    for name in names:
        needed(name, data)
    check_folder(out)
    (out / MODELS).mkdir(parents=True, exist_ok=True)
    run = Run(entry, budget, plan, out, device, tick, Clock(minutes))
    run.report()
    for name in names:
        tick(f"reading {name}")
        prepare(name, data, out / "data" / f"{name}.safetensors")
    workers = at_once or (AT_ONCE if device.type == "cuda" else 1)
    with suppress(OutOfTime), processes(workers) as pool:
        for training in plan.trainings:
            run.train(training)
            run.begin_rows(pool)
        run.collect_all()
    return run.report(drawn=True)


class Run:
    """One run of an entry: `results` by the key of their row, written to NAME.json and NAME.md after each.

    While rows are measured by other processes, the next models train.
    """

    def __init__(
        self, entry: Entry, budget: str, plan: Plan, out: Path, device: torch.device, tick: Tick, clock: Clock
    ) -> None:
        self.entry, self.budget, self.plan, self.out, self.device = entry, budget, plan, out, device
        self.tick, self.clock = tick, clock
        self.made = {x.name: training.settings(x) for training in plan.trainings for x in training.members}
        kept = {row.key: found_before(self._file(row), self._settings(row)) for row in plan.rows}
        self.results = {key: result for key, result in kept.items() if result is not None}
        self.failed: dict[str, str] = {}
        self.trained: dict[str, float] = {}  # seconds
        self.ready: set[str] = set()  # trained models
        self.begun = set(self.results)
        self.waiting: dict[Future[Result], Row] = {}

    def train(self, training: Training) -> None:
        """The models of a training that are not in the folder yet, all at once."""
        begin, folder = time.perf_counter(), self.out / MODELS
        missing = [x for x in training.members if not trained_before(folder / x.name, self.made[x.name])]
        if missing:
            self.clock.check()
            for member, model in zip(missing, self._trained(training, missing), strict=True):
                discard(folder / member.name)
                with whole_folder(folder / member.name) as target, no_bars():
                    model.save_pretrained(target)
                    write_json(target / MADE, self.made[member.name])
            self.trained[missing[0].name] = time.perf_counter() - begin
        self.ready |= {member.name for member in training.members}

    def _trained(self, training: Training, members: Sequence[Member]) -> list[PreTrainedModel]:
        models = []
        for member in members:
            torch.manual_seed(member.seed)
            models.append(fresh(training.model))
            if training.base is not None and member.fresh is not None:
                renew(models[-1], self.out / MODELS / training.base, member.fresh)
        tensors = read(self.out / "data" / f"{training.data}.safetensors")
        seeds, length = [member.seed for member in members], training.model.get("length", 0)

        def tick(step: str, done: float = 0, total: float = 0) -> None:
            self.tick(f"training {len(members)} models like {members[0].name}, {step}", done, total)
            self.collect()
            self.clock.check()

        settings = [self.made[member.name] for member in members]
        progress = Progress(self.out / "paused" / f"{members[0].name}.safetensors", settings)
        try:
            with quick_products(), no_bars():
                trained = train(models, tensors, length, training.course, seeds, self.device, tick, progress)
        finally:
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
        progress.done()
        return trained

    def begin_rows(self, pool: ProcessPoolExecutor | None) -> None:
        """All rows whose models are there, and which are not measured yet: here and now, or by the processes."""
        for row in self.plan.rows:
            if row.key in self.begun or not set(row.models) <= self.ready:
                continue
            self.begun.add(row.key)
            if pool is None:
                self.clock.check()
                self._keep(row, attempt(row, self.out, self.device, self._tick))
            else:
                self.waiting[pool.submit(attempt, row, self.out, self.device)] = row
        self.report()

    def _tick(self, step: str, done: float = 0, total: float = 0) -> None:
        self.tick(step, done, total)
        self.clock.check()

    def collect(self) -> None:
        """Take the results of rows that are done."""
        for future in [x for x in self.waiting if x.done()]:
            self._keep(self.waiting.pop(future), result_of(future))

    def collect_all(self) -> None:
        """Wait for the rows that are left."""
        while self.waiting:
            wait(self.waiting, self.clock.left(), FIRST_COMPLETED)
            self.collect()
            if self.waiting:
                self.clock.check()

    @property
    def done(self) -> set[str]:
        return {*self.results, *self.failed}

    def _keep(self, row: Row, result: Result) -> None:
        if isinstance(result, str):
            self.failed[row.key] = result
            warnings.warn(f"{row.group}, {row.label}: {result}", stacklevel=2)
        else:
            self.results[row.key] = result
            write_json(self._file(row), {"settings": self._settings(row), "result": result})
        self.tick(f"{row.group}, {row.label}", len(self.done), len(self.plan.rows))
        self.report()

    def _settings(self, row: Row) -> dict[str, Any]:
        """All that a row depends on, its models among them."""
        return {**row.settings(), "trained": [self.made[name] for name in row.models]}

    def _file(self, row: Row) -> Path:
        return self.out / "rows" / f"{row.key}.json"

    def report(self, *, drawn: bool = False) -> dict[str, Any]:
        """What is known so far, also in the folder; the figure only at the end."""
        report = report_of(
            self.entry, self.budget, self.plan, self.results, self.failed, self.trained, name_of(self.device)
        )
        name = self.entry.name
        write_json(self.out / f"{name}.json", report)
        (self.out / f"{name}.md").write_text(table_of(report), encoding="utf-8")
        if drawn:
            draw(report, self.out / f"{name}.svg")
        return report


def name_of(device: torch.device) -> str:
    return (
        torch.cuda.get_device_name(device) if device.type == "cuda" else f"{device.type}, {os.cpu_count()} processors"
    )
