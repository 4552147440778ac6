"""Models that know different things, made one: A learned from WikiText-2, B from Python source, both as bytes.

    python benchmarks/run.py experts                     4 layers, 192 wide, three seeds; a GPU
    ONEBASIN_SIZE=small python benchmarks/run.py experts 2 layers, 96 wide, windows of 128, one seed; minutes on a CPU
    ONEBASIN_KEEP=FOLDER python benchmarks/run.py experts
                                                         models stay there, and are not trained again
    ONEBASIN_TINY=1 python benchmarks/run.py experts     a few steps, to try the file

Every row is one stock model with share 1/2, but for the ensemble, which runs both and averages their chances.  Loss in
nats per byte on text of both kinds that no model was trained on, and its mean.

    plain average        as they are stored
    weight               weight matching
    auto, maps alone     no data: each model writes half of the inputs, and the likelier writer of a text is its teacher
    auto                 as `merge` does it: gains and shares learn, too
    dual, gains          learned with the labels of both kinds of text, maps of both models and gains
    dual, gains, shares  shares of rows and columns as well
"""

import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from _corpus import python_source
from _train import TINY, fit
from matching import SHARED

NEEDS = (SHARED / "data",)
SIZE = os.environ.get("ONEBASIN_SIZE", "large")
WIKI, PYTHON = "WikiText-2", "Python"
CORPUS = 8_000_000  # bytes of Python source
SEEDS = (0,) if SIZE == "small" else (0, 1, 2)
KEEP = os.environ.get("ONEBASIN_KEEP")


@dataclass(frozen=True)
class Size:
    """Shape and training of the two models, steps of `dual`, and windows to measure on, of each kind of text."""

    layers: int
    width: int
    length: int
    steps: int
    batch: int
    lr: float
    learned: int
    samples: int


SIZES = {"large": Size(4, 192, 256, 2500, 64, 1e-3, 1000, 500), "small": Size(2, 96, 128, 1000, 32, 3e-3, 100, 100)}


def measure() -> dict[str, Any]:
    import torch

    size = SIZES[SIZE]
    if TINY:
        size = replace(size, layers=1, width=32, length=16, steps=3, batch=4, learned=2, samples=4)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory(prefix="onebasin-experts-") as scratch:
        folder = Path(scratch)
        write_texts(folder)
        kept = Path(KEEP or folder)
        found = [one(kept / str(seed), folder, size, seed, device) for seed in SEEDS[: 1 if TINY else None]]
    return {"device": device, "size": vars(size), "corpus": CORPUS, "seeds": found}


def write_texts(folder: Path) -> None:
    """NAME-train.txt and NAME-test.txt of both kinds."""
    sys.path.insert(0, str(SHARED / "data"))
    import load

    source = python_source(CORPUS)
    for split, other in (("train", "train"), ("test", "valid")):
        (folder / f"{WIKI}-{split}.txt").write_text(load.wikitext2(other), encoding="utf-8")
        (folder / f"{PYTHON}-{split}.txt").write_bytes(source[split])


def one(models: Path, texts: Path, size: Size, seed: int, device: str) -> dict[str, Any]:
    """All rows of one pair."""
    import onebasin
    from onebasin import Checkpoint
    from onebasin.paths import FactorPath

    for i, kind in enumerate((WIKI, PYTHON)):
        if not (models / kind).exists():
            train(models / kind, texts / f"{kind}-train.txt", size, 10 * seed + i, device)
    a, b = ends = [Checkpoint.open(models / kind) for kind in (WIKI, PYTHON)]
    tested = {kind: task(texts, kind, "test", a, size, size.samples) for kind in (WIKI, PYTHON)}
    rows = {
        "A": {"loss": losses([a], tested, device)},
        "B": {"loss": losses([b], tested, device)},
        "ensemble": {"loss": losses(ends, tested, device)},
        "plain average": {"loss": losses([FactorPath(a, b).at(0.5)], tested, device)},
    }
    for name, way in ways(texts, a, size, seed).items():
        began = time.perf_counter()
        made = onebasin.merge(ends, device=device, **way)
        spent = round(time.perf_counter() - began, 1)
        rows[name] = {"loss": losses([made], tested, device), "seconds": spent}
        print(seed, name, json.dumps(rows[name]), file=sys.stderr, flush=True)
    return {"seed": seed, "rows": rows}


def ways(texts: Path, a: Any, size: Size, seed: int) -> dict[str, dict[str, Any]]:
    """The methods, with what they are given."""
    auto = {"seed": seed, **({"steps": 2, "batch": 4} if TINY else {})}
    maps = ["residual", "qk", "ov"]
    dual = {
        "learn": [*maps, "gains"], "two_sided": True, "optimizer": "muon", "lr": 0.015, "steps": size.learned,
        "batch": size.batch, "eval_every": max(size.learned // 10, 1), "seed": seed,
    }  # fmt: skip
    shares = {**dual, "learn": [*maps, "gains", "shares"]}
    both = joined([task(texts, kind, "train", a, size, 50 * size.samples) for kind in (WIKI, PYTHON)])
    return {
        "weight": {"method": "weight"},
        "auto, maps alone": {"method": "auto", "learned": {**auto, "learn": maps}},
        "auto": {"method": "auto", "learned": auto},
        "dual, gains": {"method": "learned", "learned": dual, "task": both},
        "dual, gains, shares": {"method": "learned", "learned": shares, "task": both},
    }


def train(folder: Path, text: Path, size: Size, seed: int, device: str) -> None:
    """A GPT-2 that tells bytes ahead, from windows anywhere in the text."""
    import torch
    import transformers

    torch.manual_seed(seed)
    config = transformers.GPT2Config(
        n_embd=size.width, n_layer=size.layers, n_head=size.width // 32, n_positions=size.length, vocab_size=256,
        bos_token_id=0, eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, tie_word_embeddings=False,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).to(device)
    ids = torch.frombuffer(bytearray(text.read_bytes()), dtype=torch.uint8).to(device)
    drawn, window = torch.Generator().manual_seed(seed), torch.arange(size.length + 1, device=device)

    def batch() -> tuple[dict[str, Any], Any]:
        starts = torch.randint(len(ids) - size.length - 1, (size.batch, 1), generator=drawn).to(device)
        windows = ids[starts + window].long()
        return {"input_ids": windows[:, :-1], "use_cache": False}, windows[:, 1:]

    optimizer = torch.optim.AdamW(model.parameters(), lr=size.lr, weight_decay=0.1)
    fit(model, (batch() for _ in count()), size.steps, optimizer)
    model.float().cpu().save_pretrained(folder)


def task(texts: Path, kind: str, split: str, model: Any, size: Size, samples: int) -> Any:
    from onebasin.tasks import load_task

    return load_task(f"text:{texts}/{kind}-{split}.txt", model, samples=samples, length=size.length)


def joined(tasks: list[Any]) -> Any:
    """The samples of both, as one task."""
    import torch

    first = tasks[0]
    inputs = {name: torch.cat([each.inputs[name] for each in tasks]) for name in first.inputs}
    labels = torch.cat([each.labels for each in tasks])
    return replace(first, name="text:both", inputs=inputs, labels=labels, text=None)


def losses(models: list[Any], tested: dict[str, Any], device: str) -> dict[str, float]:
    """Of one model, or of several whose chances are averaged, on every kind of text, and the mean."""
    import torch

    from onebasin.checkpoint.stock import stock_model

    running = [stock_model(model, torch.float32).to(device) for model in models]
    found = {}
    for kind, data in tested.items():
        total = 0.0
        for given, labels in data.to(device).batches(50):
            with torch.no_grad():
                chances = sum(model(**given).logits.softmax(-1) for model in running) / len(running)
            total -= float(chances.gather(-1, labels[..., None]).log().sum())
        found[kind] = round(total / data.labels.numel(), 4)
    return {**found, "mean": round(sum(found.values()) / len(found), 4)}
