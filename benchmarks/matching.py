"""Matching without labels on the trained pairs: barriers on full test splits, and scrambled copies put back.

Every pair is measured as stored ("none"), aligned by weights ("weight", the presets of the first paper, permutations
alone), by activations (500 training images, 200 training windows or 500 training texts, labels unused) and by the
automatic method without data ("auto") and with the same unlabelled inputs ("auto, unlabelled inputs"), on both paths,
11 points.  A scrambled copy is a random element of every space (condition up to 10) written in float32; "excess" is the
loss of its average with the original less the original's own.

The pairs are measured side by side, one process each, so seconds are not those of a free machine.
"""

import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from _compact import RESULTS, curve

SHARED = Path(__file__).resolve().parents[2] / "shared"
NEEDS = (SHARED / "zoo", SHARED / "data")
PAIRS = ("vit-cifar10-l2", "vit-cifar10-adamw", "gpt2-wikitext2", "llama-wikitext2", "bert-agnews")
TINY = bool(os.environ.get("ONEBASIN_TINY"))  # few samples, to try the file on any machine
TEST = {"vit": (10_000, None), "gpt2": (1000, 256), "llama": (1000, 256), "bert": (7600, 64)}
if TINY:
    TEST = {kind: (20, length) for kind, (_, length) in TEST.items()}
ONLY = os.environ.get("ONEBASIN_METHODS", "")  # a pattern of methods; the others keep what the file holds
PATHS = ("factor", "circuit")
PROBES = {"vit": 500, "gpt2": 200, "llama": 200, "bert": 500}


def measure() -> dict[str, Any]:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    found = side_by_side(measure_pair, device)
    if ONLY:
        kept = json.loads((RESULTS / "matching.json").read_text())["results"]
        found = {pair: {**kept[pair], "methods": kept[pair]["methods"] | x["methods"]} for pair, x in found.items()}
    return {"device": device, **found}


def side_by_side(job: Callable[[Path, Path, str, str], dict[str, Any]], device: str) -> dict[str, Any]:
    """`job` for every pair, each in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch, ProcessPoolExecutor(len(PAIRS), get_context("spawn")) as pool:
        zoo, data = Path(scratch) / "zoo", Path(scratch)
        subprocess.run([sys.executable, SHARED / "zoo" / "unpack", zoo], check=True, stdout=subprocess.DEVNULL)
        write_data(data)
        running = {pair: pool.submit(job, zoo, data, pair, device) for pair in PAIRS}
        return {pair: future.result() for pair, future in running.items()}


def write_data(folder: Path, limits: dict[str, int | None] | None = None) -> None:
    """The shared data as the files that `onebasin barrier --task` reads; `limits` of images by split."""
    import numpy as np

    sys.path.insert(0, str(SHARED / "data"))
    import load

    for split, limit in (limits or {"train": 5000, "test": None}).items():
        images, labels = load.cifar10(split, limit=limit)
        np.savez(folder / f"cifar10-{split}.npz", images=images, labels=labels)
    for split in ("train", "valid"):
        (folder / f"wikitext2-{split}.txt").write_text(load.wikitext2(split), encoding="utf-8")
    for split in ("train", "test"):
        with (folder / f"agnews-{split}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            writer.writerows((text, label) for label, text in load.ag_news(split))


def task_of(name: str, data: Path, *, test: bool) -> str:
    """The task of a model by its name; language models are tested on the validation text, as they were trained."""
    if name.startswith("vit"):
        return f"images:{data}/cifar10-{'test' if test else 'train'}.npz"
    if name.startswith("bert"):
        return f"labelled:{data}/agnews-{'test' if test else 'train'}.csv"
    return f"text:{data}/wikitext2-{'valid' if test else 'train'}.txt"


def tasks(name: str, data: Path, checkpoint: Any) -> tuple[Any, Any]:
    """(labelled test task, unlabelled training inputs)."""
    from onebasin.tasks import load_task

    kind = name.split("-")[0]
    samples, length = TEST[kind]
    test = load_task(task_of(name, data, test=True), checkpoint, samples=samples, length=length)
    probes = load_task(task_of(name, data, test=False), checkpoint, samples=PROBES[kind], length=length)
    return test, probes


def alignments(a: Any, b: Any, probes: Any, device: str) -> Iterator[tuple[str, Any, float]]:
    """(method, aligned pair, seconds), beginning with the files as they are."""
    import torch

    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.methods.method import Job
    from onebasin.methods.registry import read_method

    where = torch.device(device)
    ways: dict[str, tuple[str, dict[str, Any], Any]] = {  # name -> method, its section, data
        "weight": ("weight", {}, None),
        "weight, permutations only": ("weight", {"preset": "permutation"}, None),
        "weight, p1-paper": ("weight", {"preset": "p1-paper"}, None),
        "weight, p1-code": ("weight", {"preset": "p1-code"}, None),
        "activation": ("activation", {}, probes.unlabelled()),
        "auto": ("auto", {}, None),
        "auto, unlabelled inputs": ("auto", {}, probes.unlabelled()),
    }
    if re.search(ONLY, "none"):
        yield "none", None, 0.0
    for name, (method, section, data) in ways.items():
        if not re.search(ONLY, name):
            continue
        start = time.perf_counter()
        ready = read_method(method, {method: section} if section else {}, where).resolve(data)
        job = Job(torch.device("cpu") if method == "weight" else where, batch_size=50)
        yield name, ready.run(Ensemble.of((a, b)), data, job), time.perf_counter() - start


def measure_pair(zoo: Path, data: Path, pair: str, device: str) -> dict[str, Any]:
    """All methods on one pair, then a scrambled copy of each of the two."""
    from onebasin import Checkpoint

    a, b = (Checkpoint.open(zoo / f"{pair}-{side}") for side in (0, 1))
    test, probes = tasks(pair, data, a)
    rows: dict[str, Any] = {}
    for method, aligned, seconds in alignments(a, b, probes, device):
        rows[method] = {"seconds": round(seconds, 1), **curves(a, b, aligned, test, device)}
        print(pair, method, {path: round(rows[method][path]["barrier"]["loss"], 4) for path in PATHS},
              rows[method]["seconds"], file=sys.stderr, flush=True)  # fmt: skip
    names = [f"{pair}-{side}" for side in (0, 1)]
    copies = {name: put_back(zoo / name, data, device, data / f"scrambled-{name}") for name in names if not ONLY}
    return {"task": about(test), "methods": rows, "scrambled": copies}


def about(test: Any) -> dict[str, Any]:
    """What all curves of a pair are measured on."""
    return {"name": test.name, "kind": test.kind, **test.about, "dtype": "float32"}


def curves(a: Any, b: Any, aligned: Any, test: Any, device: str) -> dict[str, Any]:
    """Both paths between the models as stored (aligned None) or aligned, and what the certificate says."""
    from onebasin.landscape import measure as curve_of
    from onebasin.paths import path_between
    from onebasin.verification.certificate import certificate

    ends = (a, b) if aligned is None else [model.in_memory() for model in aligned.models]
    row: dict[str, Any] = {}
    for path in PATHS:
        found = curve_of(path_between(path, *ends), test, 11, batch_size=250, device=device)
        row[path] = curve(found.as_dict())
    if aligned is not None:
        report = certificate(aligned)
        row |= {"output drift of aligned B": report["output_drift"], "gauge": report["gauge"]}
        row |= {key: aligned.course[key] for key in ("heights", "kept") if key in aligned.course}
    return row


def put_back(folder: Path, data: Path, device: str, copy: Path) -> dict[str, float]:
    """Scramble one model, write it in float32, and merge it with the original by weights alone."""
    import torch

    from onebasin import Alignment, Checkpoint, canonicalize, transport
    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.landscape import evaluate
    from onebasin.methods.method import Job
    from onebasin.methods.weight import Weight
    from onebasin.paths import FactorPath

    original = Checkpoint.open(folder)
    form = canonicalize(original).checkpoint
    transport(form, Alignment.random(form.spec, seed=5, condition=10.0)).save(copy, dtype="F32")
    scrambled = Checkpoint.open(copy)
    test, _ = tasks(folder.name, data, original)
    aligned = Weight().run(Ensemble.of((original, scrambled)), None, Job(torch.device("cpu")))
    own = evaluate(FactorPath(original, original).model(0.0, device=device), test, batch_size=250, device=device).loss
    losses = {
        "plain averaging": FactorPath(original, scrambled),
        "after weight matching": FactorPath(*(model.in_memory() for model in aligned.models)),
    }
    excess = {
        name: evaluate(path.model(0.5, device=device), test, batch_size=250, device=device).loss - own
        for name, path in losses.items()
    }
    print(folder.name, excess, file=sys.stderr, flush=True)
    return {"loss": own, **{f"excess, {name}": value for name, value in excess.items()}}
