"""Is the merged model better?  What `onebasin merge --task` says of every trained pair.

By `--method weight` for all pairs, and for two of them by the default method, which learns from most of the samples and
is measured on the rest.  The data are test splits: neither model was trained on them.  The table is the command's own,
from `--json`, on a CPU.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _compact import RESULTS
from matching import NEEDS as NEEDS
from matching import ONLY, PAIRS, SHARED, TINY, task_of, write_data

SAMPLES = {"vit": 1000, "gpt2": 200, "llama": 200, "bert": 1000}
BY_DEFAULT = ("vit-cifar10-adamw", "llama-wikitext2")


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        subprocess.run([sys.executable, SHARED / "zoo" / "unpack", here], check=True, stdout=subprocess.DEVNULL)
        write_data(here, {"test": max(SAMPLES.values())})
        return {
            "by weight": {pair: merge(here, pair, "weight") for pair in PAIRS},
            "by default": {} if TINY else {pair: merge(here, pair) for pair in BY_DEFAULT},
        }


def merge(folder: Path, pair: str, method: str | None = None) -> dict[str, Any]:
    """The command, and what it says: distances of the weights, the table of scores and the verdict."""
    if not re.search(ONLY, f"{pair} by {method or 'default'}"):
        kept = json.loads((RESULTS / "merged.json").read_text())["results"]
        return dict(kept[f"by {method or 'default'}"][pair])
    samples = 20 if TINY else SAMPLES[pair.split("-")[0]]
    chosen = ["--method", method] if method else []
    flags = [*chosen, "--task", task_of(pair, folder, test=True), "--samples", str(samples), "--device", "cpu"]
    models = [str(folder / f"{pair}-{side}") for side in (0, 1)]
    command = ["merge", *models, "-o", str(folder / f"{pair}-by-{method or 'default'}"), *flags, "--json"]
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "onebasin", *command], check=True, capture_output=True, text=True)
    said = json.loads(done.stdout)
    print(pair, said["method"], said["verdict"], file=sys.stderr, flush=True)
    shown = " ".join(["onebasin", *command]).replace(f"{folder}/", "")
    kept = {key: said[key] for key in ("method", "distance_before", "distance_after", "scores", "verdict")}
    return {"command": shown, "seconds": round(time.perf_counter() - start, 1), **kept}
