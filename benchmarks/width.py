"""Is the barrier a property of small models?  Language models 192 to 1,024 wide, by one recipe stated beforehand.

    python benchmarks/run.py width                                     everything
    ONEBASIN_WIDTHS=192,384 python benchmarks/run.py width             only these; the others keep what is there
    ONEBASIN_KINDS=GPT-2 ONEBASIN_PAIRS=1 python benchmarks/run.py width

GPT-2 and Llama shapes, 4 layers, heads 32 wide, on Python source as bytes.  The recipe, for all widths alike: windows
of 256 bytes, 64 a step, 4,000 steps of AdamW at 1e-3 · √(192 / width), decay 0.1, warm-up and a half cosine, no
dropout.  Whether that is long enough is measured at 192 and 384: the same recipe with twice the steps must lower the
loss of the ends by less than 1 % ("twice the steps").  Three pairs of each, no model in two of them.

    as they are     the plain path
    weight          weight matching
    learned         dual with gains in a learned basis, from activation matching: 2,000 steps of 64 windows
    until it stops  the same for one pair, up to 12,000 steps, until 10 validations in a row are no better

Barriers: factor path, 11 points, 500 windows of files that no model was trained on, nats per byte.

ONEBASIN_TINY=1 takes small models and few steps, to try the file on any machine.
"""

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from _compact import RESULTS
from _corpus import python_source

NEEDS: tuple[Path, ...] = ()
TINY = bool(os.environ.get("ONEBASIN_TINY"))
WIDTHS = [int(x) for x in os.environ.get("ONEBASIN_WIDTHS", "32,64" if TINY else "192,384,768,1024").split(",")]
KINDS = os.environ.get("ONEBASIN_KINDS", "GPT-2,Llama").split(",")
PAIRS = int(os.environ.get("ONEBASIN_PAIRS", "1" if TINY else "3"))
LONG = (32,) if TINY else (192, 384)  # widths at which the recipe is tried with twice the steps
CORPUS = 60_000 if TINY else 300_000_000  # bytes
HEAD, BASE = (8, 32) if TINY else (32, 192)
LENGTH, BATCH, STEPS = (32, 8, 20) if TINY else (256, 64, 4000)
LEARNED: dict[str, Any] = {
    "two_sided": True, "law": "highest", "optimizer": "muon",
    "lr": 1.5e-2, "batch": BATCH, "steps": 4 if TINY else 2000, "eval_every": 2 if TINY else 50, "start": "activation",
}  # fmt: skip
LEARN = {"GPT-2": ["residual", "qk", "ov", "gains"], "Llama": ["residual", "qk", "ov", "units", "gains"]}
UNTIL = {"steps": 8, "patience": 2} if TINY else {"steps": 12_000, "eval_every": 100, "patience": 10}
DATA = "python"  # the name under which `reproduce` keeps Python source
VANILLA, WEIGHT, LEARNING, STOPS, TWICE = "as they are", "weight", "learned", "until it stops", "twice the steps"


def measure() -> dict[str, Any]:
    file = RESULTS / "width.json"
    found: dict[str, Any] = json.loads(file.read_text())["results"] if file.is_file() and not TINY else {}
    with tempfile.TemporaryDirectory(prefix="onebasin-width-") as folder:
        write_corpus(Path(folder))
        for width in WIDTHS:
            for kind in KINDS:
                found[f"{kind}, {width} wide"] = measure_width(Path(folder), kind, width)
                print(
                    json.dumps({f"{kind}, {width} wide": found[f"{kind}, {width} wide"]}), file=sys.stderr, flush=True
                )
    found = dict(
        sorted(found.items(), key=lambda item: [int(x) if x.isdigit() else x for x in re.split(r"[, ]+", item[0])])
    )
    if not TINY:
        draw(found, RESULTS / "width.svg")
    return found


def write_corpus(folder: Path) -> None:
    """Where `reproduce` looks for data that it has read before."""
    import torch
    from safetensors.torch import save_file

    for name in ("data", "models"):  # without the second it would be somebody else's folder
        (folder / name).mkdir()
    parts = python_source(CORPUS)
    tensors = {f"{split}.ids": torch.frombuffer(bytearray(text), dtype=torch.uint8) for split, text in parts.items()}
    save_file(tensors, folder / "data" / f"{DATA}.safetensors")


def measure_width(folder: Path, kind: str, width: int) -> dict[str, Any]:
    import torch

    from onebasin.reproduce.plan import Entry
    from onebasin.reproduce.running import reproduce

    entry = Entry(f"{kind}-{width}", f"{kind}, {width} wide", lambda _, pairs: plan(kind, width, pairs), {}, "")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    report = reproduce(entry, "width", PAIRS, folder, None, device)
    return {"failed": report["failed"], "training seconds": report["training_seconds"],
            **{line["label"]: row_of(line) for line in report["table"] if line.get("paths")}}  # fmt: skip


def row_of(line: dict[str, Any]) -> dict[str, Any]:
    """Mean and standard error over pairs, and each pair's own figure."""
    path = line["paths"]["factor"]
    return {"pairs": line["pairs"], "barrier": path["barrier"], "loss of the ends": path["ends"],
            "midpoint": path["midpoint"], "losses": [round(x, 4) for x in path["losses"]],
            "seconds": round(line["seconds"], 1)}  # fmt: skip


def plan(kind: str, width: int, pairs: int) -> Any:
    from onebasin.reproduce import plan as p

    name = f"{kind.lower()}-{width}"
    course = p.Course(STEPS, BATCH, 1e-3 * (BASE / width) ** 0.5, 0.1)
    trainings = [p.Training(shape(kind, width), DATA, course, p.members(name, pairs))]
    learned = {**LEARNED, "learn": LEARN[kind]}
    ways: dict[str, dict[str, Any]] = {
        VANILLA: p.NAIVE, WEIGHT: {"method": "weight"}, LEARNING: {"method": "learned", "learned": learned},
    }  # fmt: skip
    until = {"method": "learned", "learned": {**learned, **UNTIL}}
    few: dict[str, Any] = {"paths": ("factor",), "samples": 20 if TINY else 500, "points": 3 if TINY else 11}
    group = f"{kind}, {width} wide"

    def row(label: str, pair: tuple[str, str], method: dict[str, Any]) -> Any:
        windows = {"train_samples": 100 if TINY else 100_000 if method.get("method") == "learned" else 500}
        return p.Row(group, label, pair, DATA, method, **few, **windows)

    rows = [row(label, pair, method) for label, method in ways.items() for pair in p.pairs(name, pairs)]
    rows.append(row(STOPS, p.pairs(name, 1)[0], until))
    if width in LONG:
        longer = p.Course(2 * STEPS, BATCH, course.lr, course.decay)
        trainings.append(p.Training(shape(kind, width), DATA, longer, p.members(f"{name}-twice", 1)))
        rows.append(row(TWICE, p.pairs(f"{name}-twice", 1)[0], p.NAIVE))
    return p.Plan(tuple(trainings), tuple(rows))


def shape(kind: str, width: int) -> dict[str, Any]:
    """4 layers; the FFN of a Llama has 8/3 times the width in each of its three matrices."""
    sizes: dict[str, Any] = {"width": width, "layers": 4, "heads": width // HEAD, "length": LENGTH}
    if kind == "GPT-2":
        return {"kind": "gpt2", **sizes, "inner": 4 * width}
    return {"kind": "llama", **sizes, "inner": 8 * width // 3 // 8 * 8, "groups": width // HEAD // 2}


def draw(found: dict[str, Any], file: Path) -> None:
    """Barrier against width, one line a kind and way, with standard errors."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "onebasin", "svg.fonttype": "none", "text.parse_math": False}):
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        for kind, line in (("GPT-2", "-"), ("Llama", "--")):
            for way, colour in ((VANILLA, "tab:gray"), (WEIGHT, "tab:blue"), (LEARNING, "tab:green")):
                rows = {
                    width_of(name): each[way] for name, each in found.items() if name.startswith(kind) and way in each
                }
                heights = [row["barrier"] for row in rows.values()]
                errors = [height["standard_error"] or 0 for height in heights]
                axes.errorbar(list(rows), [height["mean"] for height in heights], errors, label=f"{kind}, {way}",
                              linestyle=line, color=colour, marker="o", capsize=3)  # fmt: skip
        axes.set(xlabel="width", ylabel="loss barrier, nats per byte", xscale="log", yscale="symlog")
        axes.set_xticks(
            sorted({width_of(name) for name in found}), [str(x) for x in sorted({width_of(name) for name in found})]
        )
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)
        figure.savefig(file, metadata={"Date": None})


def width_of(name: str) -> int:
    return int(name.split()[1])
