"""Alignment without any data: the automatic method on what the models make up themselves, against weight matching.

For every trained pair and three seeds (of the made-up inputs and of the order they are learned in): barriers on the
factor and the circuit path, full test splits, 11 points, with the seconds beside those of weight matching.  Then the
start of learned matching with labels, from both: the midpoint's loss on held-back training samples against steps.

The pairs are measured side by side, one process each, so seconds are not those of a free machine.
"""

import statistics
import sys
import time
from pathlib import Path
from typing import Any

from _compact import RESULTS
from matching import NEEDS as NEEDS
from matching import PATHS, about, curves, side_by_side, task_of, tasks

SEEDS = (0, 1, 2)
STEPS = 300  # of learned matching, to compare the starts
SAMPLES = {"vit": (5000, None), "bert": (5000, 64)}  # to learn from; of a text, all of it


def measure() -> dict[str, Any]:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    results = {"device": device, "seeds": SEEDS, **side_by_side(measure_pair, device)}
    draw(results, RESULTS / "data_free.svg")
    return results


def draw(results: dict[str, Any], file: Path) -> None:
    """Learned matching with labels from both starts, one picture per pair."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pairs = {name: found for name, found in results.items() if isinstance(found, dict)}
    figure, axes = pyplot.subplots(1, len(pairs), figsize=(3 * len(pairs), 2.8), layout="constrained")
    for axis, (pair, found) in zip(axes, pairs.items(), strict=True):
        for start, points in found["learned with labels from"].items():
            axis.plot(points["step"], points["midpoint loss"], label=f"from {start}")
        axis.set(title=pair, xlabel="steps with labels")
    axes[0].set_ylabel("loss of the midpoint, held back")
    axes[0].legend()
    figure.savefig(file)


def measure_pair(zoo: Path, data: Path, pair: str, device: str) -> dict[str, Any]:
    import torch

    from onebasin import Checkpoint
    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.methods.method import Job
    from onebasin.methods.registry import read_method
    from onebasin.methods.weight import Weight

    where = torch.device(device)
    a, b = (Checkpoint.open(zoo / f"{pair}-{side}") for side in (0, 1))
    test, _ = tasks(pair, data, a)
    start = time.perf_counter()
    by_weight = Weight().run(Ensemble.of((a, b)), None, Job(torch.device("cpu")))
    rows: dict[str, Any] = {
        "none": curves(a, b, None, test, device),
        "weight": {"seconds": round(time.perf_counter() - start, 1), **curves(a, b, by_weight, test, device)},
    }
    for seed in SEEDS:
        start = time.perf_counter()
        method = read_method("auto", {"learned": {"seed": seed}}, where).resolve(None)
        chosen = method.run(Ensemble.of((a, b)), None, Job(where))
        row = {"seconds": round(time.perf_counter() - start, 1), "why": chosen.course["why"]}
        rows[f"auto, seed {seed}"] = {**row, **curves(a, b, chosen, test, device)}
        print(pair, seed, [round(rows[f"auto, seed {seed}"][path]["barrier"]["loss"], 4) for path in PATHS],
              row["seconds"], file=sys.stderr, flush=True)  # fmt: skip
    spread = {path: [rows[f"auto, seed {seed}"][path]["barrier"]["loss"] for seed in SEEDS] for path in PATHS}
    summary = {p: {"mean": statistics.mean(x), "deviation": statistics.stdev(x)} for p, x in spread.items()}
    starts = {"weight": by_weight, "auto": chosen}
    learning = {name: learned(begin, data, pair, device) for name, begin in starts.items()}
    found = {"methods": rows, "auto, all seeds": summary, "learned with labels from": learning}
    return {"task": about(test), **found}


def learned(start: Any, data: Path, pair: str, device: str) -> dict[str, list[float]]:
    """Steps and the midpoint's loss on held-back samples, from one start."""
    from onebasin.learn.learning import learn
    from onebasin.learn.options import LearnedMatching
    from onebasin.tasks import load_task

    samples, length = SAMPLES.get(pair.split("-")[0], (1000, 256))
    task = load_task(task_of(pair, data, test=False), start.ensemble.models[0], samples=samples, length=length)
    options = LearnedMatching(steps=STEPS, batch=64, lr=3e-3, eval_every=25, compile="off")
    history = learn(start, task, 500, options, device=device).course["learning"]["history"]
    return {"step": [x["step"] for x in history], "midpoint loss": [x["midpoint"] for x in history]}
