"""A step of learning with the model as one block, and block by block: which is faster where, and what it holds.

Small models are one block: the tensors of one role of all layers lie in one tensor and move in one product, and on a
GPU the step is compiled.  Large ones are run block by block, with activations computed again going back.  This compares
both on the shapes of benchmarks/step_cost.py, where either is possible, and says what plain training takes, compiled as
the step is.  On a CPU the models are as wide, but have two layers and small batches: only the ratios mean something.

    python benchmarks/run.py blocks                          all shapes, or in parts, each kept beside those before:
    ONEBASIN_SHAPES=ViT python benchmarks/run.py blocks
    ONEBASIN_SHAPES=GPT-2 python benchmarks/run.py blocks
    ONEBASIN_TINY=1 python benchmarks/run.py blocks          small models and few steps, to try the file on any machine
"""

import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from large import device as device_name
from large import kept
from step_cost import TINY, configurations, finish, model_and_task, plain_step

NEEDS: tuple[Path, ...] = ()
WARM, BLOCK, TURNS = (1, 1, 2) if TINY else (3, 5, 5)
WAYS = {"one block": {"checkpointing": False}, "one block, eager": {"checkpointing": False, "compile": "off"},
        "block by block": {"checkpointing": True}}  # fmt: skip


def shapes(gpu: bool) -> dict[str, tuple[Any, int, int]]:
    """name -> (configuration, samples in a batch, tokens in a sample)."""
    found = configurations()
    if gpu or TINY:
        return found
    (vit, *_), (gpt2, *_) = found.values()
    vit.num_hidden_layers = gpt2.n_layer = 2
    gpt2.vocab_size = 2000
    return {"ViT, 2 layers, 256 wide, batch 8": (vit, 8, 0), "GPT-2, 2 layers, 768 wide, 2 x 64 tokens": (gpt2, 2, 64)}


def measure() -> dict[str, Any]:
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    gpu = device.type == "cuda"
    torch.set_float32_matmul_precision("high")
    results: dict[str, Any] = {"device": device_name(), **kept("blocks")}
    wanted = os.environ.get("ONEBASIN_SHAPES", "")
    for name, (config, batch, length) in shapes(gpu).items():
        if not name.startswith(wanted):
            continue
        form, task = model_and_task(config, batch, length)
        results[name] = {}
        for way, options in WAYS.items():
            if gpu or way != "one block, eager":  # nothing is compiled on a CPU
                results[name][way] = timed(learned_step(form, task, batch, options, device), device)
        results[name]["plain training"] = timed(plain_step(form, task, batch, "auto" if gpu else "off", device), device)
        one, many, plain = (results[name][x]["ms"] for x in ("one block", "block by block", "plain training"))
        results[name] |= {
            "block by block / one block": round(many / one, 3),
            "one block / plain": round(one / plain, 3),
        }
        print(name, results[name], file=sys.stderr, flush=True)
    return results


def timed(step: Any, device: Any) -> dict[str, float | None]:
    """Milliseconds of a step, the median of some turns; and GB of GPU memory at most."""
    import torch

    gpu = device.type == "cuda"
    for _ in range(WARM):
        step()
    finish(device)
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    taken = []
    for _ in range(TURNS):
        start = time.perf_counter()
        for _ in range(BLOCK):
            step()
        finish(device)
        taken.append((time.perf_counter() - start) / BLOCK * 1000)
    peak = round(torch.cuda.max_memory_allocated() / 1e9, 2) if gpu else None
    torch.compiler.reset()
    return {"ms": round(statistics.median(taken), 2), "GB": peak}


def learned_step(form: Any, task: Any, batch: int, options: dict[str, Any], device: Any) -> Any:
    import torch

    from onebasin.learn.objective import Objective
    from onebasin.learn.options import LearnedMatching
    from onebasin.learn.steps import Steps
    from onebasin.processes.world import World
    from onebasin.tasks.batches import Batches

    chosen = LearnedMatching(**{"steps": 10_000, "batch": batch, **options}).for_task(task)
    half = torch.bfloat16 if device.type == "cuda" else None
    tokens = task.labels[:batch].numel() if task.labels.ndim > 1 else 0
    objective = Objective((form, form), chosen, task.kind, forward_dtype=half, tokens=tokens, device=device)
    data = Batches(task.to(device), batch, 0, augment=False, world=World())
    return Steps(objective, data, chosen, World()).one
