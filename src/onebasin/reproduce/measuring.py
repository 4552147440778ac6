"""One row of a table: two trained models, a method, and the loss on the paths between them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch

from onebasin.checkpoint import Checkpoint
from onebasin.ensemble.aligned import Aligned
from onebasin.ensemble.ensemble import Ensemble
from onebasin.landscape import Curve, Surface, measure
from onebasin.match.many import aligned_by, as_they_are
from onebasin.match.pair import Pair
from onebasin.methods.learned import Learned
from onebasin.methods.method import Job, Tick, held_back, silent
from onebasin.methods.registry import read_method
from onebasin.papers.analysis import analyse
from onebasin.papers.orders import head_spaces, reordered
from onebasin.paths import path_between
from onebasin.reproduce.data import as_task, read
from onebasin.reproduce.plan import Row
from onebasin.spec import Tokens
from onebasin.tasks import Task, training

BATCH, ON_GPU = 64, 500


def measure_row(row: Row, out: Path, device: torch.device, tick: Tick = silent) -> dict[str, Any]:
    """Align, then measure every path on the test split; plain data."""
    begin = time.perf_counter()
    models = [Checkpoint.open(out / "models" / name) for name in row.models]
    tensors, reads = read(out / "data" / f"{row.data}.safetensors"), models[0].spec.reads
    length = reads.positions if isinstance(reads, Tokens) else 0
    train = as_task(row.data, tensors, "train", length, row.train_samples)
    aligned, turned = align(row, models, train, device, tick)
    seconds = time.perf_counter() - begin
    test = as_task(row.data, tensors, "test", length, row.samples).to(device)
    size = (ON_GPU if device.type == "cuda" else BATCH) // (8 if length else 1)
    curves = {}
    for name in row.paths:
        tick(f"{name} path of {row.label}")
        path = path_between(name, *aligned.models)
        curves[name] = plain(measure(path, test, row.points, batch_size=size, device=device))
    course = aligned.course.get("learning", {})
    about = {key: course[key] for key in ("midpoint", "barrier", "best_step") if key in course}
    times = {"seconds": seconds, "all_seconds": time.perf_counter() - begin}
    return {"paths": curves, "learning": about, "turned": turned, "weakest": min(map(weakest, models)), **times}


def weakest(model: Checkpoint) -> float:
    """The smallest matrix of a model against the middle one, by the size of entries: near zero where a layer died."""
    matrices = [model[name] for name, leaf in model.spec.leaves.items() if len(model.spec.keys[leaf.key]) > 1]
    sizes = [float(x.square().mean().sqrt()) for x in matrices]
    return min(sizes) / median(sizes)


def align(
    row: Row, models: list[Checkpoint], train: Task, device: torch.device, tick: Tick
) -> tuple[Aligned, dict[str, Any]]:
    """The models in one basis, by the method of the row; and how far learning turned the stream from its start."""
    ensemble, job = Ensemble.of(models), Job(device, tick=tick)
    if not row.method:
        return as_they_are(ensemble), {}
    sections = {name: dict(section) for name, section in row.method.items() if name not in ("method", "heads")}
    method = read_method(row.method["method"], sections, device).resolve(train)
    if not isinstance(method, Learned):
        found = method.run(ensemble, train, job)
        return (in_order(found, row.method["heads"]) if "heads" in row.method else found), {}
    start = as_they_are(ensemble) if method.start is None else method.start.run(ensemble, train, job)
    learned = method.refine(start, train, held_back(training(train)), job)
    if len(models) > 2 or ensemble.widened:
        return learned, {}
    moved = analyse(start, learned)
    return learned, {space: moved[space]["eigen_angles"] for space in ensemble.spec.streams
                     if "eigen_angles" in moved.get(space, {})}  # fmt: skip


def in_order(aligned: Aligned, first: Sequence[int]) -> Aligned:
    """The same with the first heads of the first layer in this order instead of 0, 1, ..."""
    ensemble, (start, found), (a, b) = aligned.ensemble, aligned.alignments, aligned.ensemble.forms
    heads = head_spaces(ensemble.spec)[0]
    order = [*first, *range(len(first), ensemble.spec.spaces[heads].size)]
    return aligned_by(ensemble, [start, reordered(Pair.of(a, b), found, heads, order)], aligned.course)


def plain(found: Surface) -> dict[str, Any]:
    """What a table and a figure need of a curve, or of the surface between three models, whose middle is the centre."""
    shares = list(found.shares) if isinstance(found, Curve) else [list(place) for place in found.points]
    middle = found.evaluations[min(range(len(shares)), key=lambda i: max(found.points[i]))]
    return {
        "barrier": found.barrier,
        "standard_error": found.barrier_error,
        "at": shares[found.highest],
        "ends": [one.loss for one in found.vertices],
        "midpoint": middle.loss,
        "shares": shares,
        "losses": [one.loss for one in found.evaluations],
        "metrics": {
            name: {"ends": fmean(one.metrics[name] for one in found.vertices), "middle": middle.metrics[name]}
            for name in middle.metrics
        },
    }
