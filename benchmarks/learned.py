"""Learned matching on the trained pairs: barriers on full test splits, and small tables of what matters.

Experiments (each can be run alone: ONEBASIN_EXPERIMENTS=vit-adamw,laws python benchmarks/run.py learned; the others
keep what learned.json holds):

    vit-l2 vit-adamw gpt2 llama bert     the pairs, three seeds of the data order, factor path; circuit path beside it
    starts sides permutations laws soft  one table each on vit-cifar10-adamw, one seed, a shorter budget

Barriers are on the factor path with 11 points unless said, on all 10,000 test images, 1,000 validation windows or 7,600
test texts; the best state of a run is chosen on samples held back from the training split.  Where permutations are soft
the moved B is another model: its loss is beside that of B itself.  ONEBASIN_SEEDS=0 takes fewer seeds, ONEBASIN_TINY=1
a few steps on few samples, to try the file on any machine.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from matching import NEEDS as NEEDS
from matching import PROBES, SHARED, task_of, write_data

HERE = Path(__file__).resolve().parent
TINY = bool(os.environ.get("ONEBASIN_TINY"))
SEEDS = [int(x) for x in os.environ.get("ONEBASIN_SEEDS", "0,1,2").split(",")]
TEST = {"vit": (10_000, None), "gpt2": (1000, 256), "llama": (1000, 256), "bert": (7600, 64)}
HELD = {"vit": 2000, "gpt2": 200, "llama": 200, "bert": 2000}
ADAMW = "vit-cifar10-adamw"
EPOCH = 375  # batches of 128 in the 48,000 images that are left of CIFAR-10

IMAGES = {"batch": 128, "augment": True, "steps": 10 * EPOCH, "lr": 3e-3, "eval_every": EPOCH // 2}
SHORT = {**IMAGES, "steps": 3 * EPOCH}
LANGUAGE = {"batch": 64, "steps": 5000, "lr": 5e-3, "eval_every": 250}
TEXTS = {"batch": 128, "steps": 2000, "lr": 3e-3, "eval_every": 100}
SCALED = ("residual", "qk", "ov", "units")  # gated units have scales
EVERYTHING = ("residual", "qk", "ov", "heads", "units")
ONLY_PERMUTATIONS = {"learn": ("heads", "units"), "permutations": "straight-through"}
SOFT = {**ONLY_PERMUTATIONS, "permutations": "soft"}

# experiment -> row -> (pair, start, options)
Row = tuple[str, str, dict[str, Any]]
EXPERIMENTS: dict[str, dict[str, Row]] = {
    "vit-l2": {
        "factor path": ("vit-cifar10-l2", "activation", IMAGES),
        "circuit path": ("vit-cifar10-l2", "weight", {**IMAGES, "path": "circuit"}),
    },
    "vit-adamw": {"factor path": (ADAMW, "activation", IMAGES)},
    "gpt2": {"factor path": ("gpt2-wikitext2", "activation", LANGUAGE)},
    "llama": {"factor path": ("llama-wikitext2", "activation", {**LANGUAGE, "learn": SCALED})},
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
SEVERAL_SEEDS = ("vit-l2", "vit-adamw", "gpt2", "llama", "bert")


def measure() -> dict[str, Any]:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = os.environ.get("ONEBASIN_EXPERIMENTS", ",".join(EXPERIMENTS)).split(",")
    file = HERE / "learned.json"
    results: dict[str, Any] = json.loads(file.read_text())["results"] if file.is_file() else {}
    with tempfile.TemporaryDirectory() as scratch:
        world = World(Path(scratch), device)
        for name in chosen:
            seeds = SEEDS if name in SEVERAL_SEEDS else SEEDS[:1]
            start = time.perf_counter()
            results[name] = {row: world.row(*what, seeds) for row, what in EXPERIMENTS[name].items()}
            print(name, round(time.perf_counter() - start), "s", file=sys.stderr, flush=True)
            if not TINY:  # what is done stays, whatever comes after
                file.write_text(json.dumps({"results": results}, indent=2))
    if not TINY:
        (HERE / "learned.md").write_text(table(results), encoding="utf-8")
    return results


class World:
    """The pairs, their data and the alignments to start from, each made once."""

    def __init__(self, folder: Path, device: str) -> None:
        import subprocess

        self.folder, self.device = folder, device
        subprocess.run(
            [sys.executable, SHARED / "zoo" / "unpack", folder / "zoo"], check=True, stdout=subprocess.DEVNULL
        )
        write_data(folder, dict.fromkeys(("train", "test"), 1500 if TINY else None))
        self.pair, self.start, self.loss_of = (lru_cache(x) for x in (self._pair, self._start, self._loss_of))

    def _pair(self, name: str) -> tuple[Any, Any, Any, Any]:
        """A, B, the training task and the test task."""
        from onebasin import Checkpoint
        from onebasin.tasks import load_task

        a, b = (Checkpoint.open(self.folder / "zoo" / f"{name}-{side}") for side in (0, 1))
        kind = name.split("-")[0]
        samples, length = TEST[kind]
        images = {"samples": 1500 if TINY else 50_000} if kind == "vit" else {}
        train = load_task(task_of(name, self.folder, test=False), a, length=length, **images)
        test = load_task(task_of(name, self.folder, test=True), a, samples=50 if TINY else samples, length=length)
        return a, b, train, test

    def _start(self, name: str, method: str) -> Any:
        from onebasin.aligning import align

        if method == "none":
            return None
        a, b, train, _ = self.pair(name)
        probes = train.first(50 if TINY else PROBES[name.split("-")[0]])
        return align(a, b, method, batches=[x for x, _ in probes.batches(50)], device=self.device).alignment

    def _loss_of(self, name: str) -> float:
        """B itself on the test task."""
        from onebasin.landscape import FactorPath, evaluate

        _, b, _, test = self.pair(name)
        return evaluate(FactorPath(b, b).model(0.0, device=self.device), test, batch_size=250, device=self.device).loss

    def row(self, name: str, method: str, options: dict[str, Any], seeds: list[int]) -> dict[str, Any]:
        runs = [self.run(name, method, {**options, "seed": seed}) for seed in seeds]
        print(name, method, options, {key: runs[0][key] for key in ("barrier", "metric", "seconds")},
              file=sys.stderr, flush=True)  # fmt: skip
        summary = {"start": method, "options": {**options, "learn": list(options.get("learn", ()))}}
        for key in ("barrier", "circuit barrier", "metric", "excess over the ends", "seconds"):
            values = [run[key] for run in runs if run.get(key) is not None]
            if values:
                spread = statistics.stdev(values) if len(values) > 1 else 0.0
                summary[key] = {"mean": statistics.mean(values), "spread": spread}
        return {**summary, "runs": runs}

    def run(self, name: str, method: str, options: dict[str, Any]) -> dict[str, Any]:
        """Learn, write B in A's gauge, and measure both as any other pair of checkpoints."""
        from onebasin.landscape import measure as curve_of
        from onebasin.landscape import path_between
        from onebasin.learn import LearnedMatching, aligned, analyse, learn
        from onebasin.report.certificate import certificate

        a, b, train, test = self.pair(name)
        kind = name.split("-")[0]
        if TINY:
            options = {**options, "steps": 4, "batch": 8, "eval_every": 2, "log_every": 2}
        start = time.perf_counter()
        learned = learn(a, b, self.start(name, method), train, 20 if TINY else HELD[kind], LearnedMatching(**options),
                        device=self.device)  # fmt: skip
        seconds = time.perf_counter() - start
        pair = aligned(a, b, learned)
        ends = pair.a.in_memory(), pair.b.in_memory()
        found: dict[str, Any] = {"seed": options["seed"], "seconds": round(seconds, 1), "best step": learned.best_step}
        paths = ("factor", "circuit") if kind == "vit" and "vit-cifar10-l2" in name else ("factor",)
        for path in paths:
            curve = curve_of(path_between(path, *ends), test, 3 if TINY else 11, batch_size=250, device=self.device)
            middle, metric = curve.evaluations[len(curve.weights) // 2], "accuracy"
            found |= {
                "barrier" if path == "factor" else "circuit barrier": curve.barrier,
                f"{path} curve": [round(e.loss, 5) for e in curve.evaluations],
            }
            if path == "factor":
                found["barrier error"], found["metric"] = curve.barrier_error, middle.metrics[metric]
                found["metric of the ends"] = sum(e.metrics[metric] for e in curve.ends) / 2
                found["excess over the ends"] = found["metric"] - found["metric of the ends"]
                found["loss of moved B"], found["loss of B"] = curve.ends[1].loss, self.loss_of(name)
        found["output drift of aligned B"] = certificate(b, pair)["output_drift"]
        found["history"] = [[p.step, p.seen, p.train_loss, p.midpoint, round(p.seconds, 2)] for p in learned.history]
        found["what moved"] = {
            space: about for space, about in analyse(learned).items() if space.count(".") < 2 or ".0." in space
        }
        return found


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
