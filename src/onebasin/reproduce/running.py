"""From an entry to its table: train what is not trained yet, measure what is not measured yet, write after each step.

On a GPU rows are measured side by side, each in a process of its own: small models keep the host busier than the GPU.
"""

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from onebasin.checkpoint import whole_folder
from onebasin.errors import OnebasinError
from onebasin.methods.method import Tick, silent
from onebasin.reproduce.data import needed, prepare, read
from onebasin.reproduce.folder import MADE, found_before, trained_before, write_json
from onebasin.reproduce.measuring import measure_row
from onebasin.reproduce.models import fresh
from onebasin.reproduce.parts import renew
from onebasin.reproduce.plan import Entry, Plan, Row, Training
from onebasin.reproduce.tables import draw, report_of, table_of
from onebasin.reproduce.training import train

AT_ONCE = 6  # rows measured side by side on a GPU


def reproduce(
    entry: Entry, budget: str, seeds: int, out: Path, data: Path | None, device: torch.device, tick: Tick = silent,
    at_once: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Everything of an entry in the folder `out`, which may hold parts of it from an earlier run."""
    plan = entry.plan(budget, seeds)
    names = dict.fromkeys(training.data for training in plan.trainings)
    for name in names:
        needed(name, data)
    for name in names:
        tick(f"reading {name}")
        prepare(name, data, out / "data" / f"{name}.safetensors")
    (out / "models").mkdir(parents=True, exist_ok=True)
    run = Run(entry, budget, plan, out, device, tick)
    workers = (AT_ONCE if at_once is None else at_once) if device.type == "cuda" else 1
    with _pool(workers) as pool:
        for training in plan.trainings:
            run.train(training)
            run.measure(pool)
    return run.report(drawn=True)


class Run:
    """One run of an entry: `results` by the key of their row, written to results.json and table.md after each."""

    def __init__(self, entry: Entry, budget: str, plan: Plan, out: Path, device: torch.device, tick: Tick) -> None:
        self.entry, self.budget, self.plan, self.out, self.device, self.tick = entry, budget, plan, out, device, tick
        self.results: dict[str, dict[str, Any]] = {}
        self.failed: dict[str, str] = {}
        self.trained: dict[str, float] = {}  # seconds
        self.ready: set[str] = set()

    def train(self, training: Training) -> None:
        """The models of a training that are not in the folder yet, all at once."""
        folders = {seed: self.out / "models" / f"{training.name}-{seed}" for seed in training.seeds}
        missing = [s for s, folder in folders.items() if not trained_before(folder, training.settings(s))]
        begin = time.perf_counter()
        if missing:
            for seed, model in zip(missing, self._trained(training, missing), strict=True):
                with whole_folder(folders[seed], overwrite=True) as folder:
                    model.save_pretrained(folder)
                    write_json(folder / MADE, training.settings(seed))
            self.trained[training.name] = time.perf_counter() - begin
        self.ready |= {folder.name for folder in folders.values()}

    def _trained(self, training: Training, seeds: Sequence[int]) -> list[Any]:
        models = []
        for seed in seeds:
            torch.manual_seed(seed)
            model = fresh(training.model)
            if training.base is not None:
                renew(model, self.out / "models" / training.base, training.fresh or "")
            models.append(model)
        tensors = read(self.out / "data" / f"{training.data}.safetensors")
        said = f"{training.name}, {len(seeds)} models"
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            return train(
                models, tensors, training.model.get("length"), training.course, seeds, self.device,
                lambda step, done=0, total=0: self.tick(f"{said}: {step}", done, total),
            )  # fmt: skip
        finally:
            torch.set_float32_matmul_precision(before)

    def measure(self, pool: ProcessPoolExecutor | None) -> None:
        """All rows whose models are there, and which are not measured yet."""
        open_rows = []
        for row in self.plan.rows:
            if row.key in self.results or row.key in self.failed or not set(row.models) <= self.ready:
                continue
            kept = found_before(self._file(row), row.settings())
            if kept is None:
                open_rows.append(row)
            else:
                self.results[row.key] = kept
        for done, (row, result) in enumerate(self._each(open_rows, pool), 1):
            if isinstance(result, str):
                self.failed[row.key] = result
                warnings.warn(f"{row.group}, {row.label}: {result}", stacklevel=2)
            else:
                self.results[row.key] = result
                write_json(self._file(row), {"settings": row.settings(), "result": result})
            self.tick(f"{row.group}: {row.label}", done, len(open_rows))
            self.report()
        self.report()

    def _file(self, row: Row) -> Path:
        return self.out / "rows" / f"{row.key}.json"

    def _each(
        self, rows: Sequence[Row], pool: ProcessPoolExecutor | None
    ) -> Iterator[tuple[Row, dict[str, Any] | str]]:
        if pool is None:
            yield from ((row, attempt(row, self.out, self.device, self.tick)) for row in rows)
            return
        waiting = {pool.submit(attempt, row, self.out, self.device): row for row in rows}
        for future in as_completed(waiting):
            yield waiting[future], future.result()

    def report(self, *, drawn: bool = False) -> dict[str, Any]:
        """What is known so far, also in the folder; the figure only at the end, or it would take most of the time."""
        report = report_of(self.entry, self.budget, self.plan, self.results, self.failed, self.trained)
        write_json(self.out / "results.json", report)
        (self.out / "table.md").write_text(table_of(report), encoding="utf-8")
        if drawn:
            draw(report, self.out / "figure.svg")
        return report


def attempt(row: Row, out: Path, device: torch.device, tick: Tick = silent) -> dict[str, Any] | str:
    """A row, or why there is none: one that fails does not end the others."""
    try:
        return measure_row(row, out, device, tick)
    except OnebasinError as error:
        return str(error).replace("\n", "; ")
    except torch.OutOfMemoryError:
        return "the memory of the GPU is used up"


class _pool:
    """Processes that measure rows, or none where one at a time is best."""

    def __init__(self, workers: int) -> None:
        spawn: Callable[[], Any] = lambda: multiprocessing.get_context("spawn")  # noqa: E731
        self.pool = ProcessPoolExecutor(workers, spawn(), _begin, (workers,)) if workers > 1 else None

    def __enter__(self) -> ProcessPoolExecutor | None:
        return self.pool

    def __exit__(self, *problem: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)


def _begin(workers: int) -> None:
    """Each process has its share of the processors."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
