"""What the stream is fitted to in weight matching, and how much each block counts: barriers on the trained pairs.

Factor path, 5 points, the first 300 test images, 100 validation windows or 300 test texts, so that a CPU can do it.
The pairs are measured side by side, so seconds are not those of a free machine.
"""

import os
import time
from pathlib import Path
from typing import Any

from matching import NEEDS as NEEDS
from matching import side_by_side, tasks

TINY = bool(os.environ.get("ONEBASIN_TINY"))
SAMPLES = {"vit": 300, "gpt2": 100, "llama": 100, "bert": 300}
WAYS: dict[str, dict[str, Any]] = {
    f"{moments}, {weighting}": {"paper": {"moments": moments, "weighting": weighting}}
    for moments in ("circuits", "factors")
    for weighting in ("balanced", "raw", "angle")
}


def measure() -> dict[str, Any]:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return {"device": device, **side_by_side(measure_pair, device)}


def measure_pair(zoo: Path, data: Path, pair: str, device: str) -> dict[str, Any]:
    import torch

    from onebasin import Checkpoint
    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.landscape import measure as curve_of
    from onebasin.methods.method import Job
    from onebasin.methods.weight import Weight
    from onebasin.paths import FactorPath

    a, b = (Checkpoint.open(zoo / f"{pair}-{side}") for side in (0, 1))
    test, _ = tasks(pair, data, a)
    test = test.first(min(len(test), SAMPLES[pair.split("-")[0]]))
    found: dict[str, Any] = {"samples": len(test)}
    for way, options in WAYS.items():
        start = time.perf_counter()
        aligned = Weight(**options).run(Ensemble.of((a, b)), None, Job(torch.device("cpu")))
        seconds = time.perf_counter() - start
        path = FactorPath(*(model.in_memory() for model in aligned.models))
        curve = curve_of(path, test, 3 if TINY else 5, batch_size=250, device=device)
        found[way] = {"barrier": round(curve.barrier, 3), "seconds": round(seconds, 1), **aligned.course}
    return found
