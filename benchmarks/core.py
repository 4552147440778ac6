"""The symmetry core: how long `--help` and `inspect` take, and how exact `verify` finds the trained models.

Start-up times are whole processes, medians of runs that take turns, so that a busy machine slows all of them alike.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ZOO = Path(__file__).resolve().parents[2] / "shared" / "zoo"
NEEDS = (ZOO,)
TURNS = 7

ONEBASIN = [sys.executable, "-m", "onebasin"]
CONFIG_CLASS = [sys.executable, "-c", "from transformers import GPT2Config"]
IMPORTS_TORCH = [sys.executable, "-c", "import sys, onebasin.cli; print('torch' in sys.modules)"]


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as target:
        subprocess.run([sys.executable, ZOO / "unpack", target], check=True, stdout=subprocess.DEVNULL)
        folders = sorted(Path(target).iterdir())
        return {"start": start_up(*folders), "verify": {folder.name: verify(folder) for folder in folders}}


def start_up(*folders: Path) -> dict[str, Any]:
    """Seconds of `--help`, of `inspect` on one pair, and of the import that reading a configuration needs."""
    pair = [str(folder) for folder in folders if folder.name.startswith("gpt2-wikitext2")]
    commands = {"help": [*ONEBASIN, "--help"], "inspect pair": [*ONEBASIN, "inspect", *pair], "import": CONFIG_CLASS}
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(TURNS):
        for name, command in commands.items():
            taken[name].append(seconds(command)[0])
    median = {name: statistics.median(times) for name, times in taken.items()}
    return {
        "turns": TURNS,
        "onebasin --help, seconds": round(median["help"], 3),
        "onebasin --help imports torch": seconds(IMPORTS_TORCH)[1].strip() == "True",
        "onebasin inspect gpt2-wikitext2-0 gpt2-wikitext2-1, seconds": round(median["inspect pair"], 3),
        "from transformers import GPT2Config, seconds": round(median["import"], 3),
        "inspect less import, seconds": round(median["inspect pair"] - median["import"], 3),
        "inspect over import": round(median["inspect pair"] / median["import"], 3),
    }


def verify(folder: Path) -> dict[str, Any]:
    """`onebasin verify`: largest output difference by dtype, beside what rounding alone does to the model."""
    taken, output = seconds([*ONEBASIN, "verify", str(folder), "--json"])
    result = json.loads(output)
    return {
        "holds": result["holds"],
        "drift": short(result["drift"]),
        "rounding alone": short(result["rounding"]),
        "largest drift of one space, float64": short(max(result["per_space"].values())),
        "largest output": round(result["scale"], 2),
        "seconds": round(taken, 1),
    }


def seconds(command: list[str]) -> tuple[float, str]:
    """Wall time and output of a process; a failure is an error."""
    start = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - start, done.stdout


def short(value: Any) -> Any:
    """Two digits are all that is stable from machine to machine."""
    return {key: short(x) for key, x in value.items()} if isinstance(value, dict) else float(f"{value:.1e}")
