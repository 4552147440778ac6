"""Pairs of models that know different things: their data, their shapes, and how they are trained and aligned.

text     GPT-2, 4 layers, 192 wide, bytes: A reads WikiText-2, B Python source
images   ViT, 4 layers, 192 wide, CIFAR-10: A sees 80 % of the images of five classes and 20 % of the others, B the rest
topics   BERT, 2 layers, 128 wide, AG News: A reads 80 % of the texts of two topics and 20 % of the others, B the rest
"""

import csv
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matching import SHARED

TINY = bool(os.environ.get("ONEBASIN_TINY"))
MOSTLY = 0.8  # the share of its own classes that an expert has seen
CORPUS = 60_000 if TINY else 40_000_000  # bytes of Python source


@dataclass(frozen=True)
class Pair:
    """`names` of the two tasks; `write` puts their data into a folder and `fresh` an untrained model.

    `task` gives, for a folder, the task of a name and a split, as `--task` has it.  `train` are the options of healing
    for a training from nothing, `learned` those of the alignment.
    """

    names: tuple[str, str]
    write: Callable[[Path], None]
    fresh: Callable[[Path, int], None]
    task: Callable[[Path, str, str], str]
    train: dict[str, Any]
    learned: dict[str, Any]
    sizes: dict[str, int | None] = field(default_factory=dict)  # samples of a training task, of a test task; length


def shared() -> Any:
    sys.path.insert(0, str(SHARED / "data"))
    import load

    return load


# ---- text


def write_text(folder: Path) -> None:
    from _corpus import python_source

    python, wiki = python_source(CORPUS), {split: shared().wikitext2(split) for split in ("train", "valid")}
    for split, own in (("train", "train"), ("test", "valid")):
        text = wiki[own][: CORPUS if TINY else None]
        (folder / f"wiki-{split}.txt").write_text(text, encoding="utf-8")
        (folder / f"python-{split}.txt").write_text(python[split].decode(errors="replace"), encoding="utf-8")


def fresh_text(folder: Path, seed: int) -> None:
    import torch
    import transformers
    from _train import config_of

    torch.manual_seed(seed)
    transformers.GPT2LMHeadModel(config_of("gpt2", 32 if TINY else 192)).save_pretrained(folder)


# ---- images


def write_images(folder: Path) -> None:
    import numpy as np

    for split, limit in (("train", 400 if TINY else None), ("test", 200 if TINY else None)):
        images, labels = shared().cifar10(split, limit=limit)
        for name, chosen in parts(labels, 10, split).items():
            np.savez(folder / f"{name}-{split}.npz", images=images[chosen], labels=labels[chosen])


def fresh_images(folder: Path, seed: int) -> None:
    import torch
    import transformers
    from _train import config_of, write_preprocessor

    torch.manual_seed(seed)
    transformers.ViTForImageClassification(config_of("vit", 32 if TINY else 192)).save_pretrained(folder)
    write_preprocessor(folder)


# ---- topics


def write_topics(folder: Path) -> None:
    import numpy as np

    for split in ("train", "test"):
        rows = shared().ag_news(split)[: 200 if TINY else None]
        for name, chosen in parts(np.array([label for label, _ in rows]), 4, split).items():
            with (folder / f"{name}-{split}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(["text", "label"])
                writer.writerows((rows[i][1], rows[i][0]) for i in chosen)


def fresh_topics(folder: Path, seed: int) -> None:
    import torch
    from zoo import new_model, tokenizer

    shared()
    torch.manual_seed(seed)
    new_model("bert-agnews").save_pretrained(folder)
    tokenizer().save_pretrained(folder)


def parts(labels: Any, classes: int, split: str) -> dict[str, Any]:
    """Row numbers: to train on those of A and of B, which share none; to test on those of each half of the classes."""
    import numpy as np

    first = labels < classes // 2
    if split == "train":
        own = np.random.default_rng(0).random(len(labels)) < MOSTLY
        first = first == own
    return {"first": np.flatnonzero(first), "second": np.flatnonzero(~first)}


# ---- how they are trained and aligned

SHORT = {"steps": 4, "eval_every": 2} if TINY else {"steps": 1000, "eval_every": 50}
DUAL: dict[str, Any] = {
    "two_sided": True,
    "start": "activation",
    "steps": 4 if TINY else 1000,
    "eval_every": 2 if TINY else 50,
}
MAPS = {"learn": ["residual", "qk", "ov"]}
GAINS = {"learn": [*MAPS["learn"], "gains"]}


def course(steps: int, batch: int, lr: float, decay: float, **more: Any) -> dict[str, Any]:
    return {"steps": 6 if TINY else steps, "batch": 8 if TINY else batch, "lr": lr, "weight_decay": decay, **more}


def small(batch: int) -> dict[str, int]:
    return {"batch": 8 if TINY else batch}


def named(kind: str, ending: str) -> Callable[[Path, str, str], str]:
    return lambda folder, name, split: f"{kind}:{folder}/{name}-{split}.{ending}"


EXPERTS = {
    "text": Pair(
        ("wiki", "python"), write_text, fresh_text, named("text", "txt"), course(2500, 64, 1e-3, 0.1),
        {**DUAL, **GAINS, **small(64), "optimizer": "muon", "lr": 1.5e-2},
        {"test": 8 if TINY else 500, "length": 32 if TINY else 256},
    ),
    "images": Pair(
        ("first", "second"), write_images, fresh_images, named("images", "npz"),
        course(3000, 256, 1e-3, 0.05, augment=True),
        {**DUAL, **GAINS, **small(128), "augment": True}, {"train": 100 if TINY else 24_800},
    ),
    "topics": Pair(
        ("first", "second"), write_topics, fresh_topics, named("labelled", "csv"), course(1500, 64, 5e-4, 0.05),
        {**DUAL, **MAPS, **small(128)}, {"length": 64},
    ),
}  # fmt: skip
