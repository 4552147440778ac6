"""Small models trained here on CIFAR-10 or WikiText-2, by AdamW with warm-up and a half cosine, from a seed.

`fit` is the loop; zoo.py trains the pairs of the zoo by it.  ONEBASIN_TINY=1 takes a few steps of few samples.
"""

import json
import math
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from matching import task_of

TINY = bool(os.environ.get("ONEBASIN_TINY"))
IMAGES = {"steps": 3000, "batch": 256, "lr": 1e-3, "weight_decay": 0.05}
TEXT = {"steps": 2000, "batch": 64, "lr": 1e-3, "weight_decay": 0.1}
LENGTH = {"vit": None, "gpt2": 256}
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of CIFAR-10, by channel
WARM_UP, CLIP = 0.05, 1.0  # share of the steps; largest norm of the gradient


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
    """Write folder/name, a stock checkpoint; `folder` holds the data.  Returns the last training loss."""
    import torch
    import transformers

    from onebasin import Checkpoint
    from onebasin.processes.world import World
    from onebasin.tasks import load_task, training
    from onebasin.tasks.batches import Batches

    torch.manual_seed(seed)
    torch.set_float32_matmul_precision("high")
    made = transformers.ViTForImageClassification if kind == "vit" else transformers.GPT2LMHeadModel
    model = made(config_of(kind, width))
    model.save_pretrained(folder / name)
    if kind == "vit":
        write_preprocessor(folder / name)
    how = IMAGES if kind == "vit" else TEXT
    steps, batch = (3, 8) if TINY else (how["steps"], how["batch"])
    samples = {"samples": 500 if TINY else 50_000} if kind == "vit" else {}
    task = load_task(task_of(kind, folder, test=False), Checkpoint.open(folder / name), length=LENGTH[kind], **samples)
    batches = Batches(training(task).to(device), batch, seed, augment=kind == "vit", world=World())
    model.to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=how["lr"], weight_decay=how["weight_decay"], fused=device == "cuda"
    )
    extra = {} if kind == "vit" else {"use_cache": False}
    endless = (batches(step, torch.device(device)) for step in count())
    loss = fit(model, (({**inputs, **extra}, labels) for inputs, labels in endless), steps, optimizer)
    model.float().cpu().save_pretrained(folder / name)
    return loss


def fit(
    model: Any, batches: Iterator[tuple[dict[str, Any], Any]], steps: int, optimizer: Any, span: range | None = None
) -> float:
    """Warm up, then a half cosine down to nothing; bfloat16 on a GPU.  Returns the last training loss.

    `span` are those of the steps that are taken; all unless said.
    """
    import torch
    from torch.nn.functional import cross_entropy

    model.train()
    highest, loss = optimizer.defaults["lr"], torch.zeros(())
    for step in range(steps) if span is None else span:
        optimizer.param_groups[0]["lr"] = highest * rate_of(step, steps)
        inputs, labels = next(batches)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=model.device.type == "cuda"):
            logits = model(**inputs).logits
        loss = cross_entropy(logits.flatten(0, -2).float(), labels.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
    return float(loss.detach())


def rate_of(step: int, steps: int) -> float:
    """The share of the highest rate: warm-up, then a half cosine down to nothing."""
    return min(1.0, (step + 1) / (WARM_UP * steps)) * (1 + math.cos(math.pi * step / steps)) / 2


def write_preprocessor(folder: Path) -> None:
    """How images of 32 × 32 become the pixels that the model reads."""
    scale = {"do_resize": False, "do_rescale": True, "rescale_factor": 1 / 255, "size": {"height": 32, "width": 32}}
    colours = {"do_normalize": True, "image_mean": MEAN, "image_std": DEVIATION}
    about = {**scale, **colours, "image_processor_type": "ViTImageProcessor"}
    (folder / "preprocessor_config.json").write_text(json.dumps(about, indent=1), encoding="utf-8")


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
    """The data."""
    from matching import write_data

    write_data(folder, dict.fromkeys(("train", "test"), 500 if TINY else None))
