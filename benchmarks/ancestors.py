"""How alike two models are, and whether their average works, when they went the same way for a while and then parted.

One run is the trunk.  At some of its steps it is copied, and both copies go on to the end with their own batches, under
the same schedule.  At step 0 they share their first weights alone.  "fine-tuned": the trunk is trained to its end, and
each copy goes on with a new schedule.  "independent": other first weights.  Models and data are those of the pairs of
language models in ../shared/zoo, with fewer steps.  For every pair: the median cosine of the matrices of layers as
stored, the verdict of `inspect --weights`, and how far the loss of the average lies above the mean loss of the two, as
stored and after weight matching; 1,000 windows of the validation split of WikiText-2.
"""

import copy
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from _train import TINY, fit
from zoo import DATA, PAIRS, new_model, tested, windows

NEEDS = [DATA / "wikitext-2"]
MODELS = ("gpt2-wikitext2", "llama-wikitext2")
STEPS, TUNED = (6, 4) if TINY else (1000, 500)
PARTINGS = (0, 2, 4) if TINY else (0, 10, 30, 100, 300)
RATES = (1e-4, 1e-3)  # of fine-tuning; the trunk has 1e-3


def measure() -> dict[str, Any]:
    import torch

    sys.path.insert(0, str(DATA))
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows: dict[str, Any] = {"device": device, "steps": STEPS, "steps of fine-tuning": TUNED}
    for name in MODELS:
        rows[name] = measure_model(name, device)
    return rows


def measure_model(name: str, device: str) -> dict[str, Any]:
    import torch

    rows = {}
    torch.manual_seed(0)
    model = new_model(name).to(device)
    batch = 4 if TINY else PAIRS[name].batch
    shared, test = windows(batch, 0, device, 20 if TINY else None)
    optimizer = adamw(model, PAIRS[name].lr)
    for since, step in zip((0, *PARTINGS), PARTINGS, strict=False):
        fit(model, shared, STEPS, optimizer, range(since, step))
        two = [branch(model, optimizer, batch, seed, device, range(step, STEPS), STEPS) for seed in (1, 2)]
        rows[f"parted at step {step}"] = compared(two, test, f"{name}, parted at {step}")
    fit(model, shared, STEPS, optimizer, range(PARTINGS[-1], STEPS))
    for rate in RATES:
        two = [branch(model, adamw(model, rate), batch, seed, device, range(TUNED), TUNED) for seed in (1, 2)]
        rows[f"fine-tuned, rate {rate:g}"] = compared(two, test, f"{name}, fine-tuned at {rate:g}")
    torch.manual_seed(1)
    other = new_model(name).to(device)
    fit(other, windows(batch, 1, device, 1)[0], STEPS, adamw(other, PAIRS[name].lr))
    rows["independent"] = compared([model, other], test, f"{name}, independent")
    return rows


def adamw(model: Any, rate: float) -> Any:
    import torch

    return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.1, fused=model.device.type == "cuda")


def branch(model: Any, optimizer: Any, batch: int, seed: int, device: str, span: range, steps: int) -> Any:
    """A copy of the model that goes on by itself, with the optimizer as it is."""
    own = copy.deepcopy(model)
    further = adamw(own, optimizer.defaults["lr"])
    further.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    fit(own, windows(batch, seed, device, 1)[0], steps, further, span)
    return own


def compared(two: list[Any], test: list[Any], what: str) -> dict[str, Any]:
    import onebasin
    from onebasin.checkpoint import Checkpoint
    from onebasin.ensemble.likeness import likeness

    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / letter for letter in "ab"]
        for model, folder in zip(two, folders, strict=True):
            model.save_pretrained(folder)
        found = likeness(*map(Checkpoint.open, folders))
        aligned = onebasin.align(*folders, method="weight").models[1]
        plain, matched = (height(two, onebasin.live(b), test) for b in (Checkpoint.open(folders[1]), aligned))
    layers = sorted(layer.stored for layer in found.layers)
    row = {"cosine": found.cosine, "layers": [layers[0], layers[-1]], "verdict": found.verdict}
    row |= {"above, as stored": plain, "above, after weight matching": matched}
    row = {key: [round(x, 4) for x in v] if isinstance(v, list) else v if isinstance(v, str) else round(v, 4)
           for key, v in row.items()}  # fmt: skip
    print(what, json.dumps(row), file=sys.stderr, flush=True)
    return row


def height(two: list[Any], b: Any, test: list[Any]) -> float:
    """The loss of the average of the first model and `b`, above the mean loss of the two."""
    import torch

    average = copy.deepcopy(two[0])
    with torch.no_grad():
        for own, other in zip(average.parameters(), b.parameters(), strict=True):
            own.copy_((own + other.to(own.device)) / 2)
    ends = [tested(model.eval(), test)[0] for model in two]
    return tested(average.eval(), test)[0] - sum(ends) / 2
