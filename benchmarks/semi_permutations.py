"""Models with unequal numbers of units and heads: what fills the smaller one.  Minutes on a CPU.

    zero      units and heads that do nothing
    split     copies of its own, with even shares
    shares    copies with the shares that bring it closest to the larger model (`weight.extra=shares`)

Two layers, ReLU: a ViT on drawn shapes with 128 units a layer against 48, all else alike; a GPT-2 on Python's library
as bytes, 4 heads and 256 units against 2 heads and 96 units, its stream half as wide.  Three pairs of each, no model in
two of them.  All three are weight matching and nothing else.  Measured: the loss barrier on the factor path at 11
points, on 500 drawings or 500 windows that no model was trained on; and the distance that matching makes small.

ONEBASIN_TINY=1 takes a few steps, to try the file.
"""

import os
import sys
import tempfile
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

NEEDS: tuple[Path, ...] = ()
TINY = bool(os.environ.get("ONEBASIN_TINY"))
PAIRS = 1 if TINY else 3
STEPS = 5 if TINY else 300
VIT: dict[str, Any] = {
    "kind": "vit", "width": 64, "layers": 2, "heads": 4, "inner": 128, "image": 16, "patch": 4, "activation": "relu",
}  # fmt: skip
GPT2: dict[str, Any] = {
    "kind": "gpt2", "width": 64, "layers": 2, "heads": 4, "inner": 256, "length": 32, "activation": "relu",
}  # fmt: skip
SIZES = {  # name -> data, the larger model, the smaller one
    "vit, 128 and 48 units": ("shapes", VIT, {**VIT, "inner": 48}),
    "gpt2, 4 and 2 heads, 256 and 96 units": ("python", GPT2, {**GPT2, "width": 32, "heads": 2, "inner": 96}),
}
RATES = {"vit": 2e-3, "gpt2": 4e-3}
WAYS = ("zero", "split", "shares")


def measure() -> dict[str, Any]:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, (data, large, small) in SIZES.items():
            train(Path(scratch), data, {"large": large, "small": small})
            pairs = [measure_pair(Path(scratch), data, large.get("length"), pair) for pair in range(PAIRS)]
            found[name] = {way: summary([pair[way] for pair in pairs]) for way in ("as they are", *WAYS)}
            found[name]["loss of the ends"] = [pair["ends"] for pair in pairs]
    how = {"steps": STEPS, "batch": 32, "rates": RATES, "decay": 1e-3, "pairs": PAIRS}
    return {"training": how, "sizes": SIZES, "found": found}


def train(folder: Path, data: str, models: dict[str, dict[str, Any]]) -> None:
    """large-0, large-1, ... and small-0, small-1, ..., all from seeds of their own."""
    import torch

    from onebasin.methods.method import silent
    from onebasin.reproduce.data import prepare, read
    from onebasin.reproduce.models import fresh
    from onebasin.reproduce.plan import Course
    from onebasin.reproduce.training import train as trained

    file = folder / f"{data}.safetensors"
    prepare(data, None, file)
    for which, (name, model) in enumerate(models.items()):
        course, begun = Course(STEPS, 32, RATES[model["kind"]], 1e-3), []
        seeds = [2 * pair + which for pair in range(PAIRS)]
        for seed in seeds:
            torch.manual_seed(seed)
            begun.append(fresh(model))
        made = trained(begun, read(file), model.get("length"), course, seeds, torch.device("cpu"), silent)
        for pair, one in enumerate(made):
            one.save_pretrained(folder / f"{name}-{pair}")


def measure_pair(folder: Path, data: str, length: int | None, pair: int) -> dict[str, Any]:
    import torch

    from onebasin import Checkpoint
    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.match.many import as_they_are
    from onebasin.methods.method import Job
    from onebasin.methods.weight import Weight
    from onebasin.reproduce.data import as_task, read

    models = [Checkpoint.open(folder / f"{name}-{pair}") for name in ("large", "small")]
    test = as_task(data, read(folder / f"{data}.safetensors"), "test", length, 50 if TINY else 500)
    ensemble, job, found = Ensemble.of(models), Job(torch.device("cpu")), dict[str, Any]()
    found["as they are"], found["ends"] = measured(as_they_are(ensemble), test)
    for way in WAYS:
        aligned = Weight(extra=way).run(ensemble, None, job)
        found[way], _ = measured(aligned, test)
        if "extra" in aligned.course:
            found[way]["distances"] = aligned.course["extra"]
        print(folder, pair, way, found[way], file=sys.stderr, flush=True)
    return found


def measured(aligned: Any, test: Any) -> tuple[dict[str, Any], list[float]]:
    from onebasin.landscape import measure as curve_of
    from onebasin.paths import path_between

    curve = curve_of(path_between("factor", *aligned.models), test, 11, batch_size=250)
    middle = curve.evaluations[5].metrics["accuracy"]
    return {"barrier": curve.barrier, "midpoint accuracy": middle}, [one.loss for one in curve.vertices]


def summary(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard error of the barrier, and all that was measured."""
    barriers = [pair["barrier"] for pair in pairs]
    error = stdev(barriers) / len(barriers) ** 0.5 if len(barriers) > 1 else None
    return {"barrier": fmean(barriers), "standard error": error, "pairs": pairs}
