"""Learned matching at size: tokens per second and memory of a step, beside plain forward + backward of one such model.

    python benchmarks/run.py learned_size                     all of it, or in parts, each kept beside those before:
    ONEBASIN_SIZES=1.4B python benchmarks/run.py learned_size
    ONEBASIN_SIZES=7B ONEBASIN_WAYS="one-sided" python benchmarks/run.py learned_size
    ONEBASIN_SIZES=7B ONEBASIN_WAYS="two-sided;one-sided, agreement" python benchmarks/run.py learned_size

Models are random, of the shapes of benchmarks/large.py, stored in bfloat16.  Batches are 16 x 1,024 random tokens with
the task loss; everything is bfloat16 on a GPU, and the activations of each layer are computed again going back, in
plain training, too.  Steps follow each other without waiting for the device, as in learning; the median of three
times four of them.  A learned step includes its optimiser; the plain one is forward and backward alone, on all
weights.  "allowed" is frozen models + what plain training holds besides weights and gradients + latents, their
gradients and both moments of the optimiser; in GB, allocated by torch at most.

ONEBASIN_TINY=1 takes small models and few tokens, to try the file on any machine.  Parts of 7B take about five minutes.
"""

import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from large import LLAMA, NEOX, SIZES, SMALL, TINY, device, kept, write_random

NEEDS: tuple[Path, ...] = ()
WANTED = os.environ.get("ONEBASIN_SIZES", "1.4B,7B").split(",")
BATCH, LENGTH = (2, 16) if TINY else (16, 1024)
WARM, TIMED, TURNS = (1, 2, 1) if TINY else (2, 4, 3)  # steps before, steps in a row, and how often
WAYS: dict[str, dict[str, Any]] = {
    "one-sided": {},
    "two-sided": {"two_sided": True},
    "one-sided, agreement": {"loss": "agreement"},
}


def measure() -> dict[str, Any]:
    """One size after the other; what is done is printed at once, for a run that is cut short."""
    ways = os.environ.get("ONEBASIN_WAYS", ";".join(WAYS)).split(";")
    found: dict[str, Any] = {"device": device(), "batch": f"{BATCH} x {LENGTH} tokens", **kept("learned_size")}
    for name in WANTED:
        found[name] = {**found.get(name, {}), **measure_size(name, ways)}
        print(json.dumps({name: found[name]}), file=sys.stderr, flush=True)
    return found


def measure_size(name: str, ways: list[str]) -> dict[str, Any]:
    """Plain training, and these ways beside it."""
    import torch

    config = {**SIZES[name], **(SMALL if TINY else {})}
    if TINY and config["model_type"] == LLAMA["model_type"]:
        config["num_key_value_heads"] = 2
    assert config["model_type"] in (LLAMA["model_type"], NEOX["model_type"])
    torch.set_float32_matmul_precision("high")
    with tempfile.TemporaryDirectory(prefix="onebasin-size-") as folder:
        parameters = write_random(Path(folder, "a"), config, seed=0)
        plain = timed(lambda: plain_step(Path(folder, "a"), config))
        found: dict[str, Any] = {"parameters": parameters, "plain": plain}
        for way in ways:
            options = WAYS[way]
            row = timed(lambda options=options: learned_step(Path(folder, "a"), config, options))
            row["share of plain speed"] = round(row["tokens per second"] / plain["tokens per second"], 3)
            row["allowed GB"] = round(row["held GB"] + plain["peak GB"] - plain["held GB"], 2)
            row["memory, of allowed"] = round(row["peak GB"] / row["allowed GB"], 3) if row["peak GB"] else None
            found[way] = row
            print(name, way, json.dumps(row), file=sys.stderr, flush=True)
    return found


def timed(prepare: Callable[[], tuple[Callable[[], Any], int]]) -> dict[str, Any]:
    """Tokens per second and peak memory of a step; `prepare` gives it, and the bytes it holds between steps."""
    import torch

    gpu = torch.cuda.is_available()
    gc.collect()
    if gpu:
        torch.cuda.empty_cache()
    began = time.perf_counter()
    step, held = prepare()
    loading = time.perf_counter() - began
    repeat(step, WARM)
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    seconds = statistics.median(repeat(step, TIMED) / TIMED for _ in range(TURNS))
    return {
        "tokens per second": round(BATCH * LENGTH / seconds),
        "step, ms": round(1000 * seconds, 1),
        "held GB": round(held / 1e9, 2),
        "peak GB": round(torch.cuda.max_memory_allocated() / 1e9, 2) if gpu else 0,
        "loading, s": round(loading, 1),
    }


def repeat(step: Callable[[], Any], times: int) -> float:
    """Seconds of so many steps in a row; as in learning, nothing waits for the device between them."""
    import torch

    start = time.perf_counter()
    for _ in range(times):
        step()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def batches(config: dict[str, Any], place: Any) -> tuple[Any, Any]:
    import torch

    dice = torch.Generator().manual_seed(0)
    ids = torch.randint(config["vocab_size"], (2 * BATCH, LENGTH + 1), generator=dice).to(place)
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def learned_step(folder: Path, config: dict[str, Any], more: dict[str, Any]) -> tuple[Callable[[], Any], int]:
    """A step of learning between a model and itself, which is as much work as between two."""
    import torch

    from onebasin import Checkpoint
    from onebasin.canonical.form import canonicalize
    from onebasin.learn.objective import Objective
    from onebasin.learn.options import LearnedMatching
    from onebasin.learn.steps import Steps
    from onebasin.processes.world import World
    from onebasin.tasks import LANGUAGE, Task
    from onebasin.tasks.batches import Batches

    place = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ids, labels = batches(config, place)
    task = Task("random", LANGUAGE, {"input_ids": ids}, labels, {})
    options = LearnedMatching(**{"loss": "task", "batch": BATCH, "steps": 1000, "checkpointing": True, **more})
    model = Checkpoint.open(folder)
    with model.store.resting(place):
        form = canonicalize(model).checkpoint
        half = torch.bfloat16 if place.type == "cuda" else None
        objective = Objective((form, form), options, LANGUAGE, forward_dtype=half, device=place)
    data = Batches(task, BATCH, 0, augment=False, world=World())
    frozen = sum(p.nbytes for p in objective.running.parameters())
    return Steps(objective, data, options, World()).one, frozen + 4 * sum(p.nbytes for p in objective.learned())


def plain_step(folder: Path, config: dict[str, Any]) -> tuple[Callable[[], Any], int]:
    """Forward and backward as anyone would write them."""
    import torch
    from torch.nn.functional import cross_entropy
    from transformers import AutoModelForCausalLM

    place = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if place.type == "cuda" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa").to(place)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    ids, labels = (x[:BATCH] for x in batches(config, place))

    def step() -> None:
        model.zero_grad(set_to_none=True)
        logits = model(input_ids=ids, use_cache=False).logits
        cross_entropy(logits.flatten(0, 1).float(), labels.flatten()).backward()

    return step, 2 * sum(p.nbytes for p in model.parameters())
