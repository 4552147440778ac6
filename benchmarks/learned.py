"""Learned matching on the trained pairs: barriers on full test splits, and small tables of what matters.

Experiments (each can be run alone: ONEBASIN_EXPERIMENTS=vit-adamw,laws python benchmarks/run.py learned; the others
keep what results/learned.json holds):

    vit-l2 vit-adamw gpt2 llama bert     the pairs, factor path; of vit-l2 the circuit path beside it
    starts sides permutations laws soft  one table each on vit-cifar10-adamw, with a shorter budget

Every row is three seeds of the data order.  Barriers are on the factor path with 11 points unless said, on all 10,000
test images, 1,000 validation windows or 7,600 test texts; the best state of a run is chosen on samples held back from
the training split.  Where permutations are soft the moved B is another model: its loss is beside that of B itself, and
the barrier is above the line between the true end points.
ONEBASIN_ROWS=gains takes only the rows with that pattern in their names.
ONEBASIN_SEEDS=0 takes fewer seeds, ONEBASIN_TINY=1 a few steps on few samples, to try the file on any machine.
ONEBASIN_WORKERS=14 takes that many runs side by side; seconds are then not those of a free machine.  Starts and runs
are kept in the folder .learned beside this file, so that a measurement that was cut short goes on where it was; without
the folder it begins anew.
"""

import hashlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from _compact import RESULTS, write
from _learned_tables import draw, table
from matching import NEEDS as NEEDS
from matching import PROBES, SHARED, task_of, write_data

KEPT = Path(__file__).resolve().parent / ".learned"
TINY = bool(os.environ.get("ONEBASIN_TINY"))
SMALL = {"steps": 4, "batch": 8, "eval_every": 2, "log_every": 2} if TINY else {}
WORKERS = int(os.environ.get("ONEBASIN_WORKERS", "1"))  # runs side by side
SEEDS = [int(x) for x in os.environ.get("ONEBASIN_SEEDS", "0,1,2").split(",")]
TEST = {"vit": (10_000, None), "gpt2": (1000, 256), "llama": (1000, 256), "bert": (7600, 64)}
HELD = {"vit": 2000, "gpt2": 200, "llama": 200, "bert": 2000}
ADAMW = "vit-cifar10-adamw"
EPOCH = 375  # batches of 128 in the 48,000 images that are left of CIFAR-10

IMAGES = {"batch": 128, "augment": True, "steps": 8 * EPOCH, "lr": 3e-3, "eval_every": EPOCH // 2}
SHORT = {**IMAGES, "steps": 2 * EPOCH}
LANGUAGE = {"batch": 64, "steps": 5000, "optimizer": "muon", "lr": 3e-2, "two_sided": True, "eval_every": 250}
NORMAL, HIGHEST = {"paper": {"law": "normal"}}, {"law": "highest"}
LOWEST = {**LANGUAGE, **HIGHEST, "lr": 1e-2, "eval_every": 100}  # heights are measured often, and rates are low
DEFAULT = ("residual", "qk", "ov")
TEXTS = {"batch": 128, "steps": 1000, "lr": 3e-3, "eval_every": 100}
SCALED = (*DEFAULT, "units")  # gated units have scales
EVERYTHING = (*DEFAULT, "heads", "units")


def with_gains(*learn: str) -> dict[str, Any]:
    """Gains depend on the basis, so both sides move and one is learned; heights are measured twice as often."""
    return {**LOWEST, "lr": 1.5e-2, "eval_every": 50, "learn": (*learn, "gains")}


STRAIGHT = {"paper": {"permutations": "straight-through"}}
ONLY_PERMUTATIONS = {"learn": ("heads", "units"), **STRAIGHT}
SOFT = {**ONLY_PERMUTATIONS, "paper": {"permutations": "soft"}}

# experiment -> row -> (pair, start, options)
Row = tuple[str, str, dict[str, Any]]
EXPERIMENTS: dict[str, dict[str, Row]] = {
    "vit-l2": {
        "factor path": ("vit-cifar10-l2", "weight", IMAGES),
        "factor path, λ where it is highest": ("vit-cifar10-l2", "weight", {**IMAGES, **HIGHEST}),
        "circuit path": ("vit-cifar10-l2", "weight", {**IMAGES, "path": "circuit"}),
    },
    "vit-adamw": {"factor path": (ADAMW, "activation", IMAGES)},
    "gpt2": {
        "λ where the path is highest": ("gpt2-wikitext2", "activation", LOWEST),
        "λ where the path is highest, gains": ("gpt2-wikitext2", "activation", with_gains(*DEFAULT)),
        "λ on [0.4, 0.6]": ("gpt2-wikitext2", "activation", LANGUAGE),
        "λ ~ N(0.5, 0.1)": ("gpt2-wikitext2", "activation", {**LANGUAGE, **NORMAL}),
    },
    "llama": {
        "λ where the path is highest, gains, recentred": (
            "llama-wikitext2", "activation", {**with_gains(*SCALED), "recentre_every": 25},
        ),
        "λ where the path is highest, gains": ("llama-wikitext2", "activation", with_gains(*SCALED)),
        "λ ~ N(0.5, 0.1)": ("llama-wikitext2", "activation", {**LANGUAGE, **NORMAL, "learn": SCALED}),
    },
    "bert": {
        "factor path": ("bert-agnews", "activation", TEXTS),
        "with straight-through permutations": (
            "bert-agnews", "activation", {**TEXTS, "learn": EVERYTHING, **STRAIGHT},
        ),
        "with soft permutations": ("bert-agnews", "activation", {**TEXTS, **SOFT, "learn": EVERYTHING}),
    },
    "starts": {
        "identity": (ADAMW, "none", SHORT),
        "weight matching": (ADAMW, "weight", SHORT),
        "activation matching": (ADAMW, "activation", SHORT),
    },
    "sides": {
        "one-sided": (ADAMW, "activation", SHORT),
        "two-sided": (ADAMW, "activation", {**SHORT, "two_sided": True}),
    },
    "permutations": {
        "permutations only": (ADAMW, "activation", {**SHORT, **ONLY_PERMUTATIONS}),
        "rotations and insides (default)": (ADAMW, "activation", SHORT),
        "both": (ADAMW, "activation", {**SHORT, "learn": EVERYTHING, **STRAIGHT}),
    },
    "laws": {
        "middle": (ADAMW, "activation", SHORT),
        **{law: (ADAMW, "activation", {**SHORT, "paper": {"law": law}}) for law in ("half", "full", "normal")},
    },
    "soft": {
        "straight-through": (ADAMW, "activation", {**SHORT, **ONLY_PERMUTATIONS}),
        "soft": (ADAMW, "activation", {**SHORT, **SOFT}),
        "soft, λ on [0, 1]": (ADAMW, "activation", {**SHORT, **SOFT, "paper": {"permutations": "soft", "law": "full"}}),
    },
}  # fmt: skip
Job = tuple[str, str, str]  # pair, start, options as JSON: the same run may stand in several tables


def measure() -> dict[str, Any]:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = os.environ.get("ONEBASIN_EXPERIMENTS", ",".join(EXPERIMENTS)).split(",")
    file = RESULTS / "learned.json"
    kept: dict[str, Any] = json.loads(file.read_text())["results"] if file.is_file() else {}
    jobs = list(dict.fromkeys(job for name in chosen for row in rows_of(name) for job in jobs_of(name, row)))
    jobs.sort(key=lambda job: -json.loads(job[2])["steps"])  # the long ones first
    done: dict[Job, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch), jobs)
        with ProcessPoolExecutor(WORKERS, get_context("spawn"), max_tasks_per_child=1) as pool:
            running = {pool.submit(kept_run, Path(scratch), device, job): job for job in jobs}
            for future in as_completed(running):
                job = running[future]
                if future.exception():
                    print(*job, "failed:", future.exception(), file=sys.stderr, flush=True)
                    continue
                done[job] = future.result()
                print(*job, done[job]["barrier"], done[job]["seconds"], "s", file=sys.stderr, flush=True)
                found = tables(chosen, done)
                results = kept | {name: {**kept.get(name, {}), **rows} for name, rows in found.items()}
                if not TINY:  # what is done stays, whatever comes after
                    write(file, {"results": results})
    if not TINY:
        (RESULTS / "learned.md").write_text(table(results), encoding="utf-8")
        draw(results, RESULTS / "learned.svg")
    return results


def rows_of(name: str) -> list[str]:
    return [row for row in EXPERIMENTS[name] if re.search(os.environ.get("ONEBASIN_ROWS", ""), row)]


def jobs_of(name: str, row: str) -> list[Job]:
    pair, start, options = EXPERIMENTS[name][row]
    return [(pair, start, json.dumps({**options, "seed": seed})) for seed in SEEDS]


def tables(chosen: list[str], done: dict[Job, dict[str, Any]]) -> dict[str, Any]:
    """The rows all of whose runs are done."""
    found: dict[str, Any] = {}
    for name in chosen:
        for row, (pair, start, options) in EXPERIMENTS[name].items():
            runs = [done[job] for job in jobs_of(name, row) if job in done]
            if len(runs) == len(jobs_of(name, row)):
                about = {"pair": pair, "start": start, "options": options}
                found.setdefault(name, {})[row] = {**about, **summary(runs), "runs": runs}
    return found


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds."""
    found = {}
    for key in ("barrier", "circuit barrier", "midpoint loss", "metric", "excess over the ends", "seconds"):
        values = [run[key] for run in runs if key in run]
        if values:
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            found[key] = {"mean": statistics.mean(values), "spread": spread}
    return found


def prepare(folder: Path, jobs: list[Job]) -> None:
    """Models, data, and the alignments to start from, side by side on the CPU."""
    unpack = [sys.executable, SHARED / "zoo" / "unpack", folder / "zoo"]
    subprocess.run(unpack, check=True, stdout=subprocess.DEVNULL)
    write_data(folder, dict.fromkeys(("train", "test"), 1500 if TINY else None))
    starts = {(pair, start) for pair, start, _ in jobs if start != "none"}
    with ProcessPoolExecutor(min(len(starts), WORKERS) or 1, get_context("spawn")) as pool:
        for future in [pool.submit(save_start, folder, *start) for start in sorted(starts)]:
            future.result()


def save_start(folder: Path, name: str, method: str) -> None:
    import torch

    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.methods.method import Job
    from onebasin.methods.registry import methods

    a, b, train, _ = opened(folder, name)
    probes = train.first(50 if TINY else PROBES[name.split("-")[0]])
    place = start_of(folder, name, method)
    if not place.exists():
        job = Job(torch.device("cpu"), batch_size=50)
        methods()[method]().run(Ensemble.of((a, b)), probes, job).alignment.save(place)


def start_of(folder: Path, name: str, method: str) -> Path:
    return (folder if TINY else KEPT) / f"{name}-{method}"


def opened(folder: Path, name: str, models: str = "zoo") -> tuple[Any, Any, Any, Any]:
    """A, B, the training task and the test task."""
    from onebasin import Checkpoint
    from onebasin.tasks import load_task

    a, b = (Checkpoint.open(folder / models / f"{name}-{side}") for side in (0, 1))
    kind = name.split("-")[0]
    samples, length = TEST[kind]
    images = {"samples": 1500 if TINY else 50_000} if kind == "vit" else {}
    train = load_task(task_of(name, folder, test=False), a, length=length, **images)
    test = load_task(task_of(name, folder, test=True), a, samples=50 if TINY else samples, length=length)
    return a, b, train, test


def kept_run(folder: Path, device: str, job: Job) -> dict[str, Any]:
    """What a run found, now or before."""
    if TINY:
        return run(folder, device, job)
    return remembered(KEPT, job, lambda state: run(folder, device, job, state))


def remembered(folder: Path, key: Any, find: Callable[[Path], Any]) -> Any:
    """What `find` makes of the key, now or before; it has a place for its state until it is done."""
    name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
    file, state = folder / f"{name}.json", folder / name
    if not file.is_file():
        found = find(state)
        file.write_text(json.dumps(found))
        shutil.rmtree(state, ignore_errors=True)
    return json.loads(file.read_text())


def run(folder: Path, device: str, job: Job, state: Path | None = None) -> dict[str, Any]:
    """Learn, write B in A's gauge, and measure both as any other pair of checkpoints."""
    import torch

    from onebasin import Alignment
    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.landscape import measure as curve_of
    from onebasin.match.many import aligned_by, as_they_are
    from onebasin.methods.learned import Learned
    from onebasin.methods.method import Job as Running
    from onebasin.papers.analysis import analyse
    from onebasin.paths import path_between
    from onebasin.tasks import training
    from onebasin.verification.certificate import certificate

    (name, start, text), kind = job, job[0].split("-")[0]
    a, b, train, test = opened(folder, name)
    method = Learned(**{**json.loads(text), **SMALL})
    data, held = training(train).split(20 if TINY else HELD[kind])
    base = as_they_are(Ensemble.of((a, b)))
    if start != "none":
        base = aligned_by(base.ensemble, [base.alignments[0], Alignment.load(start_of(folder, name, start))], {})
    began = time.perf_counter()
    pair = method.refine(base, data, held, Running(torch.device(device), state))
    seconds, course = time.perf_counter() - began, pair.course["learning"]
    ends, loss_of_b = [model.in_memory() for model in pair.models], loss_of(b, test, device)
    found: dict[str, Any] = {"seed": method.seed, "seconds": round(seconds, 1), "best step": course["best_step"]}
    for path in ("factor", "circuit") if name == "vit-cifar10-l2" else ("factor",):
        curve = curve_of(path_between(path, *ends), test, 3 if TINY else 11, batch_size=250, device=device)
        found |= {
            "barrier" if path == "factor" else "circuit barrier": height(curve, loss_of_b),
            f"{path} curve": [round(e.loss, 5) for e in curve.evaluations],
        }
        if path == "factor":
            found |= {"midpoint loss": curve.evaluations[len(curve.points) // 2].loss, **metrics(curve)}
    found["loss of B"] = loss_of_b
    found["output drift of aligned B"] = certificate(pair)["output_drift"]
    found["ends on held-back samples"] = (loss_of(a, held, device) + loss_of(b, held, device)) / 2
    found["history"] = history(course["history"])
    moved = analyse(base, pair).items()
    found["what moved"] = {space: about for space, about in moved if space.count(".") < 2 or ".0." in space}
    return found


def height(curve: Any, loss_of_b: float) -> float:
    """The barrier above the line between the true end points: soft permutations make B another model."""
    loss_of_a, losses = curve.evaluations[0].loss, [e.loss for e in curve.evaluations]
    chords = [(1 - share) * loss_of_a + share * loss_of_b for share in curve.shares]
    return max(0.0, *(loss - chord for loss, chord in zip(losses, chords, strict=True)))


def history(points: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The course of a run, one list a quantity."""
    names = {"step": "step", "seen": "seen", "training loss": "train_loss", "midpoint": "midpoint"}
    columns = {name: [point[field] for point in points] for name, field in names.items()}
    return {**columns, "seconds": [round(point["seconds"], 2) for point in points]}


def metrics(curve: Any) -> dict[str, float]:
    """Of the midpoint, and of the ends."""
    middle = curve.evaluations[len(curve.points) // 2].metrics["accuracy"]
    ends = sum(e.metrics["accuracy"] for e in curve.vertices) / 2
    return {
        "barrier error": curve.barrier_error,
        "metric": middle,
        "metric of the ends": ends,
        "excess over the ends": middle - ends,
        "loss of moved B": curve.vertices[1].loss,
    }


def loss_of(checkpoint: Any, task: Any, device: str) -> float:
    from onebasin.landscape import evaluate
    from onebasin.paths import FactorPath

    model = FactorPath(checkpoint, checkpoint).model(0.0, device=device)
    return float(evaluate(model, task, batch_size=250, device=device).loss)
