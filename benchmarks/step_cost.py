"""What a learned step costs beside a plain training step of the same model on the same batch.

Both run in this process with the same batches, dtype (bfloat16 autocast on a GPU), TF32, fused AdamW and gradient
clipping, eager and compiled; medians of blocks that take turns.  The charts of a rotation are timed alone, too: the
factorisation, and the products that replace it on a GPU.

ONEBASIN_TINY=1 takes small models and few steps, to try the file on any machine.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NEEDS: tuple[Path, ...] = ()
TINY = bool(os.environ.get("ONEBASIN_TINY"))
MODES = {"compiled, default": "auto", "eager": "off"}  # torch.compile in its default mode, on a GPU alone
WARM, BLOCK, TURNS = (1, 2, 2) if TINY else (8, 20, 5)


def configurations() -> dict[str, tuple[Any, int, int]]:
    """name -> (configuration, samples in a batch, tokens in a sample)."""
    import transformers

    if TINY:
        small = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
        vit = transformers.ViTConfig(**small, image_size=32, patch_size=8, num_labels=10)
        gpt2 = transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=4096, tie_word_embeddings=False)
        return {"ViT, tiny": (vit, 16, 0), "GPT-2, tiny": (gpt2, 4, 64)}
    wide = {"hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 8, "intermediate_size": 512}
    vit = transformers.ViTConfig(**wide, image_size=32, patch_size=4, num_labels=10)
    return {
        "ViT, 6 layers, 256 wide, batch 128": (vit, 128, 0),
        "GPT-2, 12 layers, 768 wide, 16 x 512 tokens": (transformers.GPT2Config(tie_word_embeddings=False), 16, 512),
    }


def measure() -> dict[str, Any]:
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    results: dict[str, Any] = {"device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu"}
    for name, (config, batch, length) in configurations().items():
        results[name] = {}
        for how, mode in MODES.items():
            if mode == "off" or device.type == "cuda":
                results[name][how] = row = compare(config, batch, length, mode, device)
                print(name, how, row, file=sys.stderr, flush=True)
    results["one rotation and its gradient, ms"] = charts(device)
    return results


def compare(config: Any, batch: int, length: int, mode: str, device: Any) -> dict[str, float]:
    """Milliseconds of both steps, and their ratio."""
    import torch

    form, task = model_and_task(config, batch, length)
    steps = {
        "learned": learned_step(form, task, batch, mode, device),
        "plain": plain_step(form, task, batch, mode, device),
    }
    taken: dict[str, list[float]] = {name: [] for name in steps}
    memory = {}
    for name, step in steps.items():
        start = time.perf_counter()
        for _ in range(WARM):
            step()
        finish(device)
        memory[name] = time.perf_counter() - start
    for _ in range(TURNS):
        for name, step in steps.items():
            start = time.perf_counter()
            for _ in range(BLOCK):
                step()
            finish(device)
            taken[name].append((time.perf_counter() - start) / BLOCK * 1000)
    median = {name: statistics.median(times) for name, times in taken.items()}
    torch.compiler.reset()
    return {
        "learned step, ms": round(median["learned"], 3),
        "plain step, ms": round(median["plain"], 3),
        "ratio": round(median["learned"] / median["plain"], 3),
        "first steps of the learned one, s": round(memory["learned"], 1),
    }


def model_and_task(config: Any, batch: int, length: int) -> tuple[Any, Any]:
    """A random model in canonical form, and random samples for it."""
    import torch
    import transformers

    from onebasin import Checkpoint, canonicalize
    from onebasin.tasks import CLASSIFICATION, LANGUAGE, Task

    torch.manual_seed(0)
    kind = transformers.GPT2LMHeadModel if length else transformers.ViTForImageClassification
    with tempfile.TemporaryDirectory() as folder:
        kind(config).save_pretrained(folder)
        form = canonicalize(Checkpoint.open(folder)).checkpoint.in_memory()
    samples = 8 * batch
    if length:
        ids = torch.randint(config.vocab_size, (samples, length + 1))
        return form, Task("random", LANGUAGE, {"input_ids": ids[:, :-1].contiguous()}, ids[:, 1:].contiguous(), {})
    pixels = torch.randn(samples, 3, config.image_size, config.image_size)
    return form, Task("random", CLASSIFICATION, {"pixel_values": pixels}, torch.randint(10, (samples,)), {})


def learned_step(form: Any, task: Any, batch: int, mode: str, device: Any) -> Callable[[], None]:
    import torch

    from onebasin.learn.objective import Objective
    from onebasin.learn.options import LearnedMatching
    from onebasin.learn.steps import Steps
    from onebasin.processes.world import World
    from onebasin.tasks.batches import Batches

    options = LearnedMatching(steps=10_000, batch=batch, compile=mode).for_task(task)
    half = torch.bfloat16 if device.type == "cuda" else None
    tokens = task.labels[:batch].numel() if task.labels.ndim > 1 else 0
    objective = Objective((form, form), options, task.kind, forward_dtype=half, tokens=tokens, device=device)
    data = Batches(task.to(device), batch, 0, augment=False, world=World())
    return Steps(objective, data, options, World()).one


def plain_step(form: Any, task: Any, batch: int, mode: str, device: Any) -> Callable[[], None]:
    """Training as anyone would write it: the same batches, loss, clipping and optimiser, on all weights."""
    import torch
    from torch.nn.functional import cross_entropy

    from onebasin.checkpoint.stock import stock_model
    from onebasin.processes.world import World
    from onebasin.tasks.batches import Batches

    model = stock_model(form, torch.float32).to(device)
    data = Batches(task.to(device), batch, 0, augment=False, world=World())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")
    extra = {"use_cache": False} if task.labels.ndim > 1 else {}
    half = device.type == "cuda"

    def loss_of(inputs: Any, labels: Any) -> Any:
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            logits = model(**inputs, **extra).logits
        return cross_entropy(logits.flatten(0, -2).float(), labels.flatten())

    forward = loss_of if mode == "off" else torch.compile(loss_of, dynamic=False)
    total, count = torch.zeros((), device=device), [0]

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss = forward(*data(count[0], device))
        loss.backward()
        total.add_(loss.detach())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        count[0] += 1

    return step


def charts(device: Any) -> dict[str, float]:
    import torch

    from onebasin.linalg import cayley, skew
    from onebasin.papers.strategies import exponential_chart, polar_chart

    kinds: dict[str, Callable[[Any], Any]] = {
        "Cayley, factorisation": lambda z: cayley(skew(z)),
        "Cayley, 10 Newton steps": lambda z: cayley(skew(z), 10),
        "exponential": exponential_chart,
        "polar": polar_chart,
    }
    found = {}
    for shape in ((32, 32),) if TINY else ((256, 256), (768, 768), (144, 64, 64)):
        z = (0.1 / shape[-1] ** 0.5 * torch.randn(shape, device=device)).requires_grad_()
        for name, kind in kinds.items():

            def both(kind: Callable[[Any], Any] = kind, z: Any = z) -> None:
                torch.autograd.grad(kind(z).square().sum(), z)

            for _ in range(WARM):
                both()
            finish(device)
            start = time.perf_counter()
            for _ in range(BLOCK):
                both()
            finish(device)
            found[f"{name}, {' x '.join(map(str, shape))}"] = round((time.perf_counter() - start) / BLOCK * 1000, 3)
    return found


def finish(device: Any) -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize()
