"""Seconds of weight matching, from two checkpoints to the aligned pair: three sweeps of the trained pairs.

    python benchmarks/run.py seconds
    ONEBASIN_BEFORE=/tmp/before python benchmarks/run.py seconds     beside another checkout, such as eee3c3d, which
                                                                     matched whole models in memory

Every pair is matched on one thread, after a small pair, which loads what is loaded where it is used; each checkout in a
process of its own.  Seconds are those of the CPU, so that nothing counts that others do meanwhile, and the least of two
turns.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from matching import NEEDS as NEEDS
from matching import PAIRS, SHARED

SWEEPS, TURNS = 3, 2
HERE = Path(__file__).resolve().parents[1]

CHILD = """
import sys, time, torch
from onebasin import Checkpoint
from onebasin.ensemble.ensemble import Ensemble
from onebasin.methods.method import Job
from onebasin.methods.weight import Weight
torch.set_num_threads(1)
folder, turns, sweeps, *pairs = sys.argv[1:]
for pair in pairs:
    taken = []
    for _ in range(int(turns)):
        start = time.process_time()
        a, b = (Checkpoint.open(f"{folder}/{pair}-{side}") for side in (0, 1))
        Weight(sweeps=int(sweeps), tol=0).run(Ensemble.of((a, b)), None, Job(torch.device("cpu")))
        taken.append(time.process_time() - start)
    print(min(taken))
"""


def measure() -> dict[str, Any]:
    before = os.environ.get("ONEBASIN_BEFORE")
    results: dict[str, Any] = {"threads": 1, "sweeps": SWEEPS}
    if before:
        command = ["git", "-C", before, "rev-parse", "--short", "HEAD"]
        results["before"] = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, SHARED / "zoo" / "unpack", scratch], check=True, stdout=subprocess.DEVNULL)
        now = seconds(HERE, scratch)
        earlier = seconds(Path(before), scratch) if before else {}
    for pair, taken in now.items():
        results[pair] = {"CPU seconds": round(taken, 2)}
        if pair in earlier:
            results[pair] |= {"before": round(earlier[pair], 2), "before / now": round(earlier[pair] / taken, 2)}
    return results


def seconds(checkout: Path, folder: str) -> dict[str, float]:
    """Of the CPU, by the code of that checkout."""
    command = [sys.executable, "-c", CHILD, folder, str(TURNS), str(SWEEPS), *PAIRS[-1:], *PAIRS]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return dict(zip(PAIRS, map(float, done.stdout.split()[1:]), strict=True))
