"""Models of unequal size: partners twice as wide and half as wide, trained on the same task, for a ViT and a GPT-2.

The smaller is widened exactly, then both are one size.  The path is measured at 11 points, on 10,000 test images or
1,000 windows of 256 bytes: its barrier, and the excess over the chord near both ends, at λ = 0.1 and 0.9.

    as they are          widened, not aligned
    weight, activation   matching
    learned              from activations, λ uniform on [0.4, 0.6]
    learned, full        the same, with λ uniform on [0, 1]

ONEBASIN_TINY=1 takes a few steps on few samples, to try the file on any machine; ONEBASIN_WORKERS as many rows side by
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

from _train import IMAGES, TEXT, TINY, opened, prepared, train
from matching import NEEDS as NEEDS

WORKERS = int(os.environ.get("ONEBASIN_WORKERS", "1"))
WIDTHS = {"vit": (128, 256, 64), "gpt2": (96, 192, 48)}
LEARN = {
    "vit": {"steps": 800, "batch": 128, "lr": 3e-3, "augment": True, "eval_every": 100, "compile": "off"},
    "gpt2": {"steps": 800, "batch": 64, "lr": 1e-2, "eval_every": 100, "compile": "off"},
}
WAYS = ("as they are", "weight", "activation", "learned", "learned, full")


def measure() -> dict[str, Any]:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as scratch, ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        folder = Path(scratch)
        prepared(folder)
        models = {
            f"{kind}-{width}": pool.submit(train, folder, f"{kind}-{width}", kind, width, seed, device)
            for kind, widths in WIDTHS.items()
            for seed, width in enumerate(widths)
        }
        training = {name: model.result() for name, model in models.items()}
        pairs = [(kind, width, other) for kind, (width, *others) in WIDTHS.items() for other in others]
        running = {(pair, way): pool.submit(measure_way, folder, *pair, way, device) for pair in pairs for way in WAYS}
        found: dict[str, Any] = {}
        for ((kind, width, other), way), future in running.items():
            found.setdefault(f"{kind}-{width} and {kind}-{other}", {})[way] = future.result()
        drift = {name: widening_drift(folder, name) for name in models}
    how = {"images": IMAGES, "text": TEXT, "last loss": training}
    return {"device": device, "training": how, "learning": LEARN, "drift of widening alone": drift, "pairs": found}


def widening_drift(folder: Path, name: str) -> float:
    """The largest change of a logit in float64 when the trained model is made twice as wide in everything."""
    from onebasin import Checkpoint, widen
    from onebasin.checkpoint.stock import outputs, probe_inputs, stock_model

    model = Checkpoint.open(folder / name)
    kind, width = name.split("-")
    large = widen(model, {"hidden_size" if kind == "vit" else "n_embd": 2 * int(width)})
    inputs = probe_inputs(model.spec, seed=1)
    before, after = (outputs(stock_model(x), x.spec, inputs)["logits"] for x in (model, large))
    return float((before - after).abs().max())


def measure_way(folder: Path, kind: str, width: int, other: int, way: str, device: str) -> dict[str, Any]:
    from onebasin.landscape import measure as curve_of
    from onebasin.paths import path_between

    (a, b), train_task, test = opened(folder, [f"{kind}-{width}", f"{kind}-{other}"], kind)
    start = time.perf_counter()
    ends = (a, b) if way == "as they are" else aligned_ends(a, b, train_task, way, kind, device)
    seconds = time.perf_counter() - start
    curve = curve_of(path_between("factor", *ends), test, 3 if TINY else 11, batch_size=250, device=device)
    excess = {f"{share:.1f}": curve.excess(i) for i, share in enumerate(curve.shares)}
    middle = curve.evaluations[len(curve.shares) // 2].metrics["accuracy"]
    print(kind, width, other, way, curve.barrier, round(seconds), "s", file=sys.stderr, flush=True)
    return {
        "barrier": curve.barrier,
        "barrier at": curve.barrier_at,
        "excess at 0.1": excess.get("0.1"),
        "excess at 0.9": excess.get("0.9"),
        "midpoint accuracy": middle,
        "accuracy of the ends": [e.metrics["accuracy"] for e in curve.vertices],
        "losses": [round(e.loss, 5) for e in curve.evaluations],
        "seconds": round(seconds, 1),
    }


def aligned_ends(a: Any, b: Any, task: Any, way: str, kind: str, device: str) -> list[Any]:
    import torch

    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.learn.learning import learn
    from onebasin.learn.options import LearnedMatching
    from onebasin.methods.activation import Activation
    from onebasin.methods.method import Job
    from onebasin.methods.weight import Weight
    from onebasin.papers.options import PaperLearning
    from onebasin.papers.strategies import variation_of

    probes = task.first(100 if TINY else 500 if kind == "vit" else 200)
    method = Weight() if way == "weight" else Activation()
    found = method.run(Ensemble.of((a, b)), probes, Job(torch.device("cpu"), batch_size=50))
    if way.startswith("learned"):
        small = {"steps": 3, "batch": 8, "eval_every": 2} if TINY else {}
        options = LearnedMatching(**{**LEARN[kind], **small})
        variation = variation_of(PaperLearning(law="full" if way == "learned, full" else None))
        held = 20 if TINY else 2000 if kind == "vit" else 200
        found = learn(found, task, held, options, variation, device=device)
    return [model.in_memory() for model in found.models]
