"""Learned matching on the trained pairs: barriers on full test splits, and small tables of what matters.

Experiments (each can be run alone: ONEBASIN_EXPERIMENTS=vit-adamw,laws python benchmarks/run.py learned; the others
keep what learned.json holds):

    vit-l2 vit-adamw gpt2 llama bert     the pairs, three seeds of the data order, factor path; circuit path beside it
    starts sides permutations laws soft  one table each on vit-cifar10-adamw, one seed, a shorter budget

Barriers are on the factor path with 11 points unless said, on all 10,000 test images, 1,000 validation windows or 7,600
test texts; the best state of a run is chosen on samples held back from the training split.  Where permutations are soft
the moved B is another model: its loss is beside that of B itself.  ONEBASIN_SEEDS=0 takes fewer seeds, ONEBASIN_TINY=1
a few steps on few samples, to try the file on any machine.  ONEBASIN_WORKERS=14 takes that many runs side by side;
seconds are then not those of a free machine.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from matching import NEEDS as NEEDS
from matching import PROBES, SHARED, task_of, write_data

HERE = Path(__file__).resolve().parent
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
ADAM = {"batch": 64, "steps": 2500, "lr": 1e-2, "eval_every": 250}
LANGUAGE = {**ADAM, "steps": 4000, "optimizer": "muon", "lr": 3e-2, "two_sided": True}
TEXTS = {"batch": 128, "steps": 1000, "lr": 3e-3, "eval_every": 100}
SCALED = ("residual", "qk", "ov", "units")  # gated units have scales
EVERYTHING = ("residual", "qk", "ov", "heads", "units")
ONLY_PERMUTATIONS = {"learn": ("heads", "units"), "permutations": "straight-through"}
SOFT = {**ONLY_PERMUTATIONS, "permutations": "soft"}

# experiment -> row -> (pair, start, options)
Row = tuple[str, str, dict[str, Any]]
EXPERIMENTS: dict[str, dict[str, Row]] = {
    "vit-l2": {
        "factor path": ("vit-cifar10-l2", "weight", IMAGES),
        "circuit path": ("vit-cifar10-l2", "weight", {**IMAGES, "path": "circuit"}),
    },
    "vit-adamw": {"factor path": (ADAMW, "activation", IMAGES)},
    "gpt2": {
        "factor path": ("gpt2-wikitext2", "activation", LANGUAGE),
        "one-sided, AdamW, 2,500 steps": ("gpt2-wikitext2", "activation", ADAM),
    },
    "llama": {
        "factor path": ("llama-wikitext2", "activation", {**LANGUAGE, "learn": SCALED}),
        "one-sided, AdamW, 2,500 steps": ("llama-wikitext2", "activation", {**ADAM, "learn": SCALED}),
    },
    "bert": {
        "factor path": ("bert-agnews", "activation", TEXTS),
        "with straight-through permutations": (
            "bert-agnews", "activation", {**TEXTS, "learn": EVERYTHING, "permutations": "straight-through"},
        ),
        "with soft permutations": ("bert-agnews", "activation", {**TEXTS, "learn": EVERYTHING, "permutations": "soft"}),
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
        "both": (ADAMW, "activation", {**SHORT, "learn": EVERYTHING, "permutations": "straight-through"}),
    },
    "laws": {law: (ADAMW, "activation", {**SHORT, "law": law}) for law in ("middle", "half", "full", "normal")},
    "soft": {
        "straight-through": (ADAMW, "activation", {**SHORT, **ONLY_PERMUTATIONS}),
        "soft": (ADAMW, "activation", {**SHORT, **SOFT}),
        "soft, λ on [0, 1]": (ADAMW, "activation", {**SHORT, **SOFT, "law": "full"}),
    },
}  # fmt: skip
SEVERAL_SEEDS = ("vit-l2", "vit-adamw", "gpt2", "llama", "bert")  # their first rows; the others take the first seed
Job = tuple[str, str, str]  # pair, start, options as JSON: the same run may stand in several tables


def measure() -> dict[str, Any]:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = os.environ.get("ONEBASIN_EXPERIMENTS", ",".join(EXPERIMENTS)).split(",")
    file = HERE / "learned.json"
    kept: dict[str, Any] = json.loads(file.read_text())["results"] if file.is_file() else {}
    jobs = list(dict.fromkeys(job for name in chosen for row in EXPERIMENTS[name] for job in jobs_of(name, row)))
    jobs.sort(key=lambda job: -json.loads(job[2])["steps"])  # the long ones first
    done: dict[Job, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch), jobs)
        with ProcessPoolExecutor(WORKERS, get_context("spawn"), max_tasks_per_child=1) as pool:
            running = {pool.submit(run, Path(scratch), device, job): job for job in jobs}
            for future in as_completed(running):
                job = running[future]
                if future.exception():
                    print(*job, "failed:", future.exception(), file=sys.stderr, flush=True)
                    continue
                done[job] = future.result()
                print(*job, done[job]["barrier"], done[job]["seconds"], "s", file=sys.stderr, flush=True)
                results = kept | tables(chosen, done)
                if not TINY:  # what is done stays, whatever comes after
                    file.write_text(json.dumps({"results": results}, indent=2))
    if not TINY:
        (HERE / "learned.md").write_text(table(results), encoding="utf-8")
        draw(results, HERE / "learned.svg")
    return results


def jobs_of(name: str, row: str) -> list[Job]:
    pair, start, options = EXPERIMENTS[name][row]
    several = name in SEVERAL_SEEDS and row == next(iter(EXPERIMENTS[name]))
    return [(pair, start, json.dumps({**options, "seed": seed})) for seed in (SEEDS if several else SEEDS[:1])]


def tables(chosen: list[str], done: dict[Job, dict[str, Any]]) -> dict[str, Any]:
    """The rows all of whose runs are done."""
    found: dict[str, Any] = {}
    for name in chosen:
        for row, (_, start, options) in EXPERIMENTS[name].items():
            runs = [done[job] for job in jobs_of(name, row) if job in done]
            if len(runs) == len(jobs_of(name, row)):
                found.setdefault(name, {})[row] = {"start": start, "options": options, **summary(runs), "runs": runs}
    return found


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds."""
    found = {}
    for key in ("barrier", "circuit barrier", "metric", "excess over the ends", "seconds"):
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
    from onebasin.aligning import align

    a, b, train, _ = opened(folder, name)
    probes = train.first(50 if TINY else PROBES[name.split("-")[0]])
    found = align(a, b, method, batches=[x for x, _ in probes.batches(50)]).alignment
    found.save(folder / f"{name}-{method}")


def opened(folder: Path, name: str) -> tuple[Any, Any, Any, Any]:
    """A, B, the training task and the test task."""
    from onebasin import Checkpoint
    from onebasin.tasks import load_task

    a, b = (Checkpoint.open(folder / "zoo" / f"{name}-{side}") for side in (0, 1))
    kind = name.split("-")[0]
    samples, length = TEST[kind]
    images = {"samples": 1500 if TINY else 50_000} if kind == "vit" else {}
    train = load_task(task_of(name, folder, test=False), a, length=length, **images)
    test = load_task(task_of(name, folder, test=True), a, samples=50 if TINY else samples, length=length)
    return a, b, train, test


def run(folder: Path, device: str, job: Job) -> dict[str, Any]:
    """Learn, write B in A's gauge, and measure both as any other pair of checkpoints."""
    from onebasin import Alignment
    from onebasin.landscape import measure as curve_of
    from onebasin.landscape import path_between
    from onebasin.learn import LearnedMatching, aligned, analyse, learn
    from onebasin.report.certificate import certificate
    from onebasin.tasks import training

    (name, start, text), kind = job, job[0].split("-")[0]
    a, b, train, test = opened(folder, name)
    given = json.loads(text)
    options = LearnedMatching(**{**given, "learn": tuple(given.get("learn", LearnedMatching.learn)), **SMALL})
    data, held = training(train).split(20 if TINY else HELD[kind])
    base = None if start == "none" else Alignment.load(folder / f"{name}-{start}")
    began = time.perf_counter()
    learned = learn(a, b, base, data, held, options, device=device)
    seconds = time.perf_counter() - began
    pair = aligned(a, b, learned)
    ends = pair.a.in_memory(), pair.b.in_memory()
    found: dict[str, Any] = {"seed": options.seed, "seconds": round(seconds, 1), "best step": learned.best_step}
    for path in ("factor", "circuit") if name == "vit-cifar10-l2" else ("factor",):
        curve = curve_of(path_between(path, *ends), test, 3 if TINY else 11, batch_size=250, device=device)
        found |= {
            "barrier" if path == "factor" else "circuit barrier": curve.barrier,
            f"{path} curve": [round(e.loss, 5) for e in curve.evaluations],
        }
        if path == "factor":
            found |= metrics(curve)
    found["loss of B"] = loss_of(b, test, device)
    found["output drift of aligned B"] = certificate(b, pair)["output_drift"]
    found["ends on held-back samples"] = (loss_of(a, held, device) + loss_of(b, held, device)) / 2
    found["history"] = [[p.step, p.seen, p.train_loss, p.midpoint, round(p.seconds, 2)] for p in learned.history]
    found["what moved"] = {
        space: about for space, about in analyse(learned).items() if space.count(".") < 2 or ".0." in space
    }
    return found


def metrics(curve: Any) -> dict[str, float]:
    """Of the midpoint, and of the ends."""
    middle = curve.evaluations[len(curve.weights) // 2].metrics["accuracy"]
    ends = sum(e.metrics["accuracy"] for e in curve.ends) / 2
    return {
        "barrier error": curve.barrier_error,
        "metric": middle,
        "metric of the ends": ends,
        "excess over the ends": middle - ends,
        "loss of moved B": curve.ends[1].loss,
    }


def loss_of(checkpoint: Any, task: Any, device: str) -> float:
    from onebasin.landscape import FactorPath, evaluate

    model = FactorPath(checkpoint, checkpoint).model(0.0, device=device)
    return float(evaluate(model, task, batch_size=250, device=device).loss)


def draw(results: dict[str, Any], file: Path) -> None:
    """The barrier at the midpoint, on samples held back, against the tokens seen; one line per seed."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "onebasin"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
    for colour, name in enumerate(name for name in ("gpt2", "llama") if name in results):
        for style, (row, found) in zip(("-", ":"), results[name].items(), strict=False):
            for i, one in enumerate(found["runs"]):
                points = [(256 * seen / 1e6, loss - one["ends on held-back samples"])
                          for _, seen, _, loss, _ in one["history"]]  # fmt: skip
                label = f"{name}, {row}" if i == 0 else None
                axes.plot(*zip(*points, strict=True), style, color=f"C{colour}", label=label, linewidth=1)
    axes.set(xlabel="million tokens seen", ylabel="midpoint less ends, nats per byte", ylim=(0, 1))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(file, metadata={"Date": None})


def table(results: dict[str, Any]) -> str:
    """The figures as Markdown: mean over seeds, with the spread where there are several."""
    lines = [
        "# Learned matching",
        "",
        "Made by `python benchmarks/run.py learned`; all figures are in `learned.json`.",
        "",
    ]
    for name, rows in results.items():
        lines += [f"## {name}", "", "| | start | barrier | midpoint accuracy | less that of the ends | seconds |",
                  "|---|---|---|---|---|---|"]  # fmt: skip
        for row, found in rows.items():
            cells = [_cell(found, "barrier", 4), _cell(found, "metric", 4), _cell(found, "excess over the ends", 4)]
            lines.append(f"| {row} | {found['start']} | {' | '.join(cells)} | {_cell(found, 'seconds', 0)} |")
            if "circuit barrier" in found:
                lines.append(f"| {row}, measured on the circuit path | | {_cell(found, 'circuit barrier', 4)} | | | |")
        lines.append("")
    return "\n".join(lines)


def _cell(found: dict[str, Any], key: str, digits: int) -> str:
    value = found[key]
    spread = f" ± {value['spread']:.{digits}f}" if len(found["runs"]) > 1 else ""
    return f"{value['mean']:.{digits}f}{spread}"
