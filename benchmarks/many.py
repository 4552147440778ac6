"""Three ViTs trained independently (4 layers, 128 wide, seeds 0 to 2), brought together and averaged.

The surface of the loss over the simplex is measured at 28 points (a triangle of 7 on a side) on all 10,000 test
images: the barrier is its supremum of L(Σ λ θ) − Σ λ L(θ).  "flat" is the share of the points, models included, whose
excess is at most 0.05.

    as they are                    no alignment
    pairwise                       B and C aligned with A, each by itself
    universe                       one frame for all, aligned with their mean again and again (P1, section 3.7)
    refined                        learned over the simplex from the universe by activations, λ ~ Dirichlet(α·1)

ONEBASIN_TINY=1 takes a few steps on few samples, to try the file on any machine; ONEBASIN_WORKERS as many ways side by
side, and seconds are then not those of a free machine.
"""

import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from _compact import RESULTS, columns
from _train import IMAGES, TINY, opened, prepared, train
from matching import NEEDS as NEEDS

WORKERS = int(os.environ.get("ONEBASIN_WORKERS", "1"))
NAMES = ["vit-0", "vit-1", "vit-2"]
LEARN = {"steps": 1000, "batch": 128, "lr": 3e-3, "augment": True, "eval_every": 100, "compile": "off"}
WAYS = (
    "as they are", "pairwise, weight", "pairwise, activation", "universe, weight", "universe, activation",
    "refined, alpha 0.1", "refined, alpha 1",
)  # fmt: skip
FLAT = 0.05
DRAWN = ("as they are", "universe, activation", "refined, alpha 1")


def measure() -> dict[str, Any]:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as scratch, ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        folder = Path(scratch)
        prepared(folder)
        models = [pool.submit(train, folder, name, "vit", 128, seed, device) for seed, name in enumerate(NAMES)]
        training = {name: model.result() for name, model in zip(NAMES, models, strict=True)}
        running = {way: pool.submit(measure_way, folder, way, device) for way in WAYS}
        ways = {way: future.result() for way, future in running.items()}
    if not TINY:
        draw(ways)
    ways = {way: {**found, "surface": surface(found["surface"])} for way, found in ways.items()}
    return {"device": device, "training": {**IMAGES, "last loss": training}, "learning": LEARN, "ways": ways}


def surface(found: dict[str, Any]) -> dict[str, Any]:
    """As columns: the models, the middles of A–B, A–C and B–C, the centre, and the rest of the triangle."""
    shares = [list(column) for column in zip(*found["shares"], strict=True)]
    kept = {"task": found["task"], "shares": dict(zip(NAMES, shares, strict=True))}
    return {**kept, **columns(found["points"]), "barrier": found["barrier"]}


def measure_way(folder: Path, way: str, device: str) -> dict[str, Any]:
    from onebasin.landscape import measure
    from onebasin.paths import FactorPath

    models, train_task, test = opened(folder, NAMES, "vit")
    start = time.perf_counter()
    together, told = brought_together(models, train_task, way, device)
    seconds = time.perf_counter() - start
    path = FactorPath(*(model.in_memory() for model in together))
    surface = measure(path, test, 3 if TINY else None, batch_size=250, device=device)
    excess = [surface.excess(i) for i in range(len(surface.points))]
    found = surface.as_dict()
    centre = found["centre"]
    print(way, "centre", centre["excess"], "sup", surface.barrier, round(seconds), "s", file=sys.stderr, flush=True)
    return {
        "centre excess": centre["excess"],
        "centre accuracy": centre["metrics"]["accuracy"],
        "barrier": surface.barrier,
        "flat": sum(x <= FLAT for x in excess) / len(excess),
        "seconds": round(seconds, 1),
        **told,
        "surface": found,
    }


def brought_together(models: list[Any], task: Any, way: str, device: str) -> tuple[list[Any], dict[str, Any]]:
    """(the models in the basis of the first, what there is to tell)."""
    import torch

    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.learn.learning import learn
    from onebasin.learn.options import LearnedMatching
    from onebasin.methods.activation import Activation
    from onebasin.methods.method import Job
    from onebasin.methods.weight import Weight

    if way == "as they are":
        return models, {}
    kind, _, how = way.partition(", ")
    method = Weight() if how == "weight" else Activation()
    probes, job = task.first(100 if TINY else 500), Job(torch.device("cpu"), batch_size=50)
    if kind == "pairwise":
        pairs = [method.run(Ensemble.of((models[0], other)), probes, job) for other in models[1:]]
        return [models[0], *(pair.models[1] for pair in pairs)], {}
    universe = method.run(Ensemble.of(models), probes, job)
    if kind == "universe":
        return list(universe.models), dict(universe.course["universe"])
    small = {"steps": 3, "batch": 8, "eval_every": 2} if TINY else {}
    options = LearnedMatching(**{**LEARN, **small}, alpha=float(how.removeprefix("alpha ")))
    learned = learn(universe, task, 20 if TINY else 2000, options, device=device)
    history = learned.course["learning"]["history"]
    return list(learned.models), {"history": [[x["step"], x["train_loss"], x["midpoint"]] for x in history]}


def draw(ways: dict[str, Any]) -> None:
    from onebasin.report.pictures import ternary

    for way in DRAWN:
        name = way.replace(", ", "-").replace(" ", "-")
        file = RESULTS / f"many-{name}.svg"
        file.write_text(ternary({**ways[way]["surface"], "models": NAMES}), encoding="utf-8")
