"""Seconds of weight matching, from two checkpoints to the aligned pair, on two cores."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from matching import NEEDS as NEEDS
from matching import PAIRS, SHARED

THREADS = 2


def measure() -> dict[str, Any]:
    import torch

    from onebasin import Checkpoint
    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.methods.method import Job
    from onebasin.methods.weight import Weight

    torch.set_num_threads(THREADS)
    results: dict[str, Any] = {"threads": THREADS}
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, SHARED / "zoo" / "unpack", scratch], check=True, stdout=subprocess.DEVNULL)
        for pair in PAIRS:
            start = time.perf_counter()
            a, b = (Checkpoint.open(Path(scratch) / f"{pair}-{side}") for side in (0, 1))
            found = Weight().run(Ensemble.of((a, b)), None, Job(torch.device("cpu"))).course
            seconds = round(time.perf_counter() - start, 1)
            results[pair] = {"seconds": seconds, "sweeps": found["sweeps"], "converged": found["converged"]}
            print(pair, results[pair], file=sys.stderr, flush=True)
    return results
