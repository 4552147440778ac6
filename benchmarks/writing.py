"""Writing 1.4 billion parameters: an aligned and a merged model, beside a bare loop that reads two and writes two.

    python benchmarks/run.py writing                            a quarter of an hour on two cores; 12 GB of disk
    ONEBASIN_WAYS=rotated python benchmarks/run.py writing      only these; the others stay in the result as they are

The two models are random, of the shape of Pythia 1.4B, in bfloat16.  The bare loop is safetensors alone: it reads a
tensor of each, and writes both.  "merged, aligned" writes B moved by a random symmetry, in A's own gauge, and the
average of it and A; "reordered" by maps that only reorder and scale, "rotated" by rotations of the stream as well, of
which the float64 products are most of the work where there is no GPU; "merged" alone is the average of A and B as they
are, twice.  Every run is a process of its own; the files were read and written before, and the disk is idle when it
begins.  Seconds are without imports, the start of a device and its libraries, and the drawing of that symmetry, which a
method has found before; runs take turns, ratios are those of medians.  Host memory is that of the process less mapped
files.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from large import RESULTS, SIZES, TINY, device, small, write_random

NEEDS: tuple[Path, ...] = ()
TURNS, TURNS_OF_LONG = 3, 1  # the products of rotations take minutes without a GPU


def measure() -> dict[str, Any]:
    """Devices and ways that are left out here stay in the result as they are."""
    file = RESULTS / "writing.json"
    found: dict[str, Any] = {} if TINY or not file.exists() else json.loads(file.read_text())["results"]
    rows: dict[str, Any] = dict(found.get(device(), {}))
    with tempfile.TemporaryDirectory(prefix="onebasin-writing-", dir=os.environ.get("ONEBASIN_DISK")) as name:
        folder = Path(name)
        for seed, side in enumerate("ab"):
            found["parameters"] = write_random(folder / side, config(), seed=seed)
        for group in groups(os.environ.get("ONEBASIN_WAYS", "merged,reordered,rotated").split(",")):
            rows |= take_turns(folder, *group)
    return {**found, device(): rows}


def groups(ways: list[str]) -> list[tuple[list[str], int]]:
    """Ways that take turns, and how many."""
    long = [way for way in ways if way == "rotated" and place() == "cpu"]
    short = [way for way in ways if way not in long]
    return [(some, turns) for some, turns in ((short, TURNS), (long, TURNS_OF_LONG)) if some]


def config() -> dict[str, Any]:
    return small(SIZES["1.4B"]) if TINY else SIZES["1.4B"]


def take_turns(folder: Path, ways: list[str], turns: int) -> dict[str, Any]:
    """Seconds and memory of these ways beside the bare loop in the same turns."""
    rows: dict[str, list[dict[str, float]]] = {way: [] for way in ("bare", *ways)}
    for turn in range(turns):
        for way in rows:
            os.sync()
            row = json.loads(child(way, folder).splitlines()[-1])
            shutil.rmtree(folder / "out")
            rows[way].append(row)
            print(turn, way, json.dumps(row), file=sys.stderr, flush=True)
    bare, *others = ({key: statistics.median(x[key] for x in rows[way]) for key in rows[way][0]} for way in rows)
    return {
        way: {
            "seconds": round(row["seconds"], 1),
            "bare loop, seconds": round(bare["seconds"], 1),
            "ratio": round(row["seconds"] / bare["seconds"], 2),
            "host GB": round(row["host GB"], 2),
            "turns": turns,
        }
        for way, row in zip(ways, others, strict=True)
    }


def child(*arguments: object) -> str:
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


# ---- in the child


def bare(folder: Path) -> None:
    """A tensor of each is read, and both are written."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    for side in "ab":
        with safe_open(folder / side / "model.safetensors", framework="pt") as handle:
            tensors = {name: handle.get_tensor(name) for name in handle.offset_keys()}
            (folder / "out" / side).mkdir()
            save_file(tensors, folder / "out" / side / "model.safetensors", {"format": "pt"})


def merged(folder: Path) -> None:
    from onebasin import Checkpoint
    from onebasin.paths import FactorPath

    a, b = (Checkpoint.open(folder / side) for side in "ab")
    with a.store.resting(place()), b.store.resting(place()):
        for name in "ab":
            FactorPath(a, b).at(0.5).save(folder / "out" / name)


def aligned(folder: Path, known: Any) -> None:
    """`known` moves B; found by a method, so that it is there before."""
    import torch

    from onebasin import Alignment
    from onebasin.ensemble.aligned import Aligned, Move
    from onebasin.match.room import Memory

    ensemble = ensemble_of(folder)
    found = Aligned(ensemble, (Move(Alignment.identity(ensemble.spec), stays=True), Move(known)))
    where = torch.device(place())
    with ensemble.resting(where, Memory().room(where, ensemble.spec)):  # as the command does
        found.models[1].save(folder / "out" / "a")
        found.merged().save(folder / "out" / "b")


def ensemble_of(folder: Path) -> Any:
    from onebasin import Checkpoint
    from onebasin.ensemble.ensemble import Ensemble

    return Ensemble.of([Checkpoint.open(folder / side) for side in "ab"])


def symmetry(folder: Path, *, rotated: bool) -> Any:
    """A random one; where nothing is rotated, of the spaces that are only reordered and scaled."""
    from onebasin import Alignment
    from onebasin.families import MONOMIAL

    spec = ensemble_of(folder).spec
    known = Alignment.random(spec, 3)
    return known if rotated else known.only(*(space for space in known if known[space].family <= MONOMIAL))


def place() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def timed(way: str, folder: Path) -> dict[str, float]:
    import torch

    import onebasin.canonical.form
    import onebasin.paths  # noqa: F401
    from onebasin import Checkpoint

    Checkpoint.open(folder / "a")  # imports the rest of what is used, so that no import is timed
    one = torch.eye(2, dtype=torch.float64, device=place())
    torch.linalg.inv(one).mm(one)  # nor the start of the device and of its libraries

    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            text = Path("/proc/self/status").read_text()
            peak[0] = max(peak[0], int(text.split("RssAnon:")[1].split()[0]) * 1024)

    simple = {"bare": bare, "merged": merged}.get(way)
    write = simple or partial(aligned, known=symmetry(folder, rotated=way == "rotated"))
    threading.Thread(target=watch, daemon=True).start()
    (folder / "out").mkdir()
    began = time.perf_counter()
    write(folder)
    seconds = time.perf_counter() - began
    done.set()
    return {"seconds": seconds, "host GB": peak[0] / 1e9}


if __name__ == "__main__":
    print(json.dumps(timed(sys.argv[1], Path(sys.argv[2]))))
