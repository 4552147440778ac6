"""Two language models of the same data made one: how much worse is it than the two?

    python benchmarks/run.py same_data                            all of it; a GPU
    ONEBASIN_WORKERS=10 python benchmarks/run.py same_data        so many runs side by side
    ONEBASIN_TINY=1 python benchmarks/run.py same_data            a few steps, to try the file

*Excess* is the loss of the average of both, share 1/2, less the mean loss of the two, in nats per byte.  Every one of
`ways` learns on the training split of WikiText-2 from activation matching; the one with the least excess on text held
back from that split is the one that is chosen.  It is measured for the pairs of the zoo, three seeds of the order of
the data, and for a pair of new seeds that nothing was chosen on: excess on 1,000 windows of 256 bytes of the validation
split.

Runs are kept in the folder .same_data beside this file: type the same again to go on.  Without it they begin anew.
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from learned import DEFAULT, HELD, SCALED, SMALL, TINY, loss_of, opened, remembered, with_gains
from matching import NEEDS as NEEDS
from matching import PROBES, SHARED, write_data

KEPT = Path(__file__).resolve().parent / ".same_data"
WORKERS = int(os.environ.get("ONEBASIN_WORKERS", "1"))
LEARN = {"gpt2-wikitext2": DEFAULT, "llama-wikitext2": SCALED}  # gated units have scales
FRESH = (2, 3)  # seeds that the zoo has not
SEEDS = (0, 1, 2)


class Job(NamedTuple):
    """A pair of the zoo or a fresh one of the same kind, a way, and a seed of the order of the data."""

    pair: str
    fresh: bool
    way: str
    seed: int


def ways(pair: str) -> dict[str, dict[str, Any]]:
    """Maps of both models, Muon, the share drawn where the path is highest; what learns, and for how long."""
    gains, shares = with_gains(*LEARN[pair]), with_gains(*LEARN[pair], "shares")
    return {
        "gains": gains,
        "gains, shares": shares,
        "gains, shares, share 1/2": {**shares, "law": "middle"},
        "gains, shares, 10,000 steps": {**shares, "steps": 10_000},
    }


def measure() -> dict[str, Any]:
    KEPT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="onebasin-same-data-") as scratch:
        folder = Path(scratch)
        subprocess.run(
            [sys.executable, SHARED / "zoo" / "unpack", folder / "zoo"], check=True, stdout=subprocess.DEVNULL
        )
        write_data(folder, dict.fromkeys(("train", "test"), 100))
        with ProcessPoolExecutor(WORKERS, get_context("spawn"), max_tasks_per_child=1) as pool:
            trained = [pool.submit(train, folder, pair, seed) for pair in LEARN for seed in FRESH]
            first = run_all(pool, folder, [Job(pair, False, way, SEEDS[0]) for pair in LEARN for way in ways(pair)])
            for model in trained:
                model.result()
            chosen = {pair: min(ways(pair), key=lambda way: first[Job(pair, False, way, SEEDS[0])]["held back"])
                      for pair in LEARN}  # fmt: skip
            rest = [Job(pair, False, way, seed) for pair, way in chosen.items() for seed in SEEDS[1:]]
            then = run_all(pool, folder, rest + [Job(pair, True, way, SEEDS[0]) for pair, way in chosen.items()])
    return {pair: summary(pair, chosen[pair], {**first, **then}) for pair in LEARN}


def run_all(pool: ProcessPoolExecutor, folder: Path, jobs: list[Job]) -> dict[Job, dict[str, float]]:
    return dict(zip(jobs, pool.map(kept_run, [folder] * len(jobs), jobs), strict=True))


def summary(pair: str, chosen: str, found: dict[Job, dict[str, float]]) -> dict[str, Any]:
    return {
        "ways": {way: found[Job(pair, False, way, SEEDS[0])] for way in ways(pair)},
        "chosen": chosen,
        "seeds": [found[Job(pair, False, chosen, seed)] for seed in SEEDS],
        "new pair": found[Job(pair, True, chosen, SEEDS[0])],
    }


def train(folder: Path, pair: str, seed: int) -> None:
    """One model of the fresh pair, by the script that trains the zoo; kept in the type of the zoo's files."""
    import torch
    import zoo

    out = KEPT / "models" / f"tiny {TINY}"
    if not (out / f"{pair}-{seed}" / "config.json").is_file():
        sys.path.insert(0, str(zoo.DATA))
        torch.set_float32_matmul_precision("high")
        zoo.train(pair, seed, out, "cuda" if torch.cuda.is_available() else "cpu", tiny=TINY)
    (folder / "fresh").mkdir(exist_ok=True)
    (folder / "fresh" / f"{pair}-{FRESH.index(seed)}").symlink_to(out / f"{pair}-{seed}")


def kept_run(folder: Path, job: Job) -> dict[str, float]:
    key = [*job, ways(job.pair)[job.way], SMALL]
    found: dict[str, float] = remembered(KEPT, key, lambda state: run(folder, job, state))
    print(*job, json.dumps(found), file=sys.stderr, flush=True)
    return found


def run(folder: Path, job: Job, state: Path) -> dict[str, float]:
    import torch

    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.methods.activation import Activation
    from onebasin.methods.learned import Learned
    from onebasin.methods.method import Job as Running
    from onebasin.tasks import training

    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b, task, test = opened(folder, job.pair, "fresh" if job.fresh else "zoo")
    kind, here = job.pair.split("-")[0], Running(torch.device(device))
    data, held = training(task).split(20 if TINY else HELD[kind])
    start = Activation().run(Ensemble.of((a, b)), task.first(20 if TINY else PROBES[kind]), here)
    method = Learned(**{**ways(job.pair)[job.way], "seed": job.seed, **SMALL})
    merged = method.refine(start, data, held, Running(torch.device(device), state)).merged()
    found = {}
    for name, samples in (("held back", held), ("validation", test)):
        losses = [loss_of(model, samples, device) for model in (a, b, merged)]
        found |= {name: losses[2] - (losses[0] + losses[1]) / 2, f"loss, {name}": losses[2]}
    return found
