"""Small models trained here on CIFAR-10 or WikiText-2, by AdamW with warm-up and a half cosine, from a seed.

ONEBASIN_TINY=1 takes a few steps of few samples.
"""

import math
import os
import shutil
from pathlib import Path
from typing import Any

from matching import task_of

TINY = bool(os.environ.get("ONEBASIN_TINY"))
IMAGES = {"steps": 3000, "batch": 256, "lr": 1e-3, "weight_decay": 0.05}
TEXT = {"steps": 2000, "batch": 64, "lr": 1e-3, "weight_decay": 0.1}
LENGTH = {"vit": None, "gpt2": 256}


def config_of(kind: str, width: int) -> Any:
    """4 layers, heads 32 wide, FFN twice (ViT) or four times (GPT-2, bytes as tokens) as wide as the stream."""
    import transformers

    heads = max(width // 32, 2)
    if kind == "vit":
        return transformers.ViTConfig(
            hidden_size=width, num_hidden_layers=4, num_attention_heads=heads, intermediate_size=2 * width,
            image_size=32, patch_size=4, num_labels=10, layer_norm_eps=1e-6,
        )  # fmt: skip
    return transformers.GPT2Config(
        n_embd=width, n_layer=4, n_head=heads, n_positions=256, vocab_size=256, bos_token_id=0, eos_token_id=0,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, tie_word_embeddings=False,
    )  # fmt: skip


def train(folder: Path, name: str, kind: str, width: int, seed: int, device: str) -> float:
    """Write folder/name, a stock checkpoint; `folder` holds data and zoo.  Returns the last training loss."""
    import torch
    import transformers
    from torch.nn.functional import cross_entropy

    from onebasin import Checkpoint
    from onebasin.tasks.batches import Batches
    from onebasin.processes import World
    from onebasin.tasks import load_task, training

    torch.manual_seed(seed)
    torch.set_float32_matmul_precision("high")
    made = transformers.ViTForImageClassification if kind == "vit" else transformers.GPT2LMHeadModel
    model = made(config_of(kind, width))
    model.save_pretrained(folder / name)
    if kind == "vit":
        shutil.copy(folder / "zoo" / "vit-cifar10-adamw-0" / "preprocessor_config.json", folder / name)
    how = IMAGES if kind == "vit" else TEXT
    steps, batch = (3, 8) if TINY else (how["steps"], how["batch"])
    samples = {"samples": 500 if TINY else 50_000} if kind == "vit" else {}
    task = load_task(task_of(kind, folder, test=False), Checkpoint.open(folder / name), length=LENGTH[kind], **samples)
    batches = Batches(training(task).to(device), batch, seed, augment=kind == "vit", world=World())
    model.to(device).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=how["lr"], weight_decay=how["weight_decay"], fused=device == "cuda"
    )
    extra = {} if kind == "vit" else {"use_cache": False}
    loss = torch.zeros(())
    for step in range(steps):
        rate = min(1.0, (step + 1) / (0.05 * steps)) * (1 + math.cos(math.pi * step / steps)) / 2
        optimizer.param_groups[0]["lr"] = how["lr"] * rate
        inputs, labels = batches(step, torch.device(device))
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = model(**inputs, **extra).logits
        loss = cross_entropy(logits.flatten(0, -2).float(), labels.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.float().cpu().save_pretrained(folder / name)
    return float(loss.detach())


def opened(folder: Path, names: list[str], kind: str) -> tuple[list[Any], Any, Any]:
    """(the models, the training task, the test task: 10,000 images or 1,000 windows)."""
    from onebasin import Checkpoint
    from onebasin.tasks import load_task

    models = [Checkpoint.open(folder / name) for name in names]
    many = {"samples": 500 if TINY else 50_000} if kind == "vit" else {}
    train = load_task(task_of(kind, folder, test=False), models[0], length=LENGTH[kind], **many)
    samples = 50 if TINY else 10_000 if kind == "vit" else 1000
    test = load_task(task_of(kind, folder, test=True), models[0], samples=samples, length=LENGTH[kind])
    return models, train, test


def prepared(folder: Path) -> None:
    """Data, and the zoo for its preprocessor."""
    import subprocess
    import sys

    from matching import SHARED, write_data

    unpack = [sys.executable, SHARED / "zoo" / "unpack", folder / "zoo", "vit-cifar10-adamw-0"]
    subprocess.run(unpack, check=True, stdout=subprocess.DEVNULL)
    write_data(folder, dict.fromkeys(("train", "test"), 500 if TINY else None))
