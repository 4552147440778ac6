"""A plain training loop: AdamW, one cycle of the learning rate, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel
from transformers.utils import logging

from onebasin.checkpoint import Checkpoint
from onebasin.demo.variants import Variant
from onebasin.tasks import load_task, training
from onebasin.tasks.mixture import One

WARMUP = 0.15  # the share of the steps in which the learning rate rises


def train_pair(variant: Variant, folders: dict[int, Path], tick: Callable[[str, float, float], None]) -> None:
    """One model for each seed, with its own first weights and its own order of the same data, saved in its folder."""
    with no_bars():
        data = training_data(variant)
    for seed, folder in folders.items():
        torch.manual_seed(seed)
        model = variant.fresh()
        for step, loss in enumerate(losses(model, data, variant, seed)):
            if step % 10 == 0:
                shown = f"training {folder.name}, loss {loss:.2f}"
            tick(shown, step + 1, variant.steps)
        with no_bars():
            model.save_pretrained(folder)


@contextmanager
def no_bars() -> Iterator[None]:
    """Without the progress bars of transformers, which would break into the one of the demo."""
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


def training_data(variant: Variant) -> One:
    """The training split in the form that the variant's models read."""
    with TemporaryDirectory() as folder:
        variant.fresh().save_pretrained(folder)
        task = variant.train
        return training(load_task(task["data"], Checkpoint.open(folder), samples=task["samples"]))


def losses(model: PreTrainedModel, data: One, variant: Variant, seed: int) -> Iterator[float]:
    """Train the model; the loss of every step as it is taken."""
    adamw = torch.optim.AdamW(model.parameters(), variant.lr, (0.9, 0.98), weight_decay=variant.weight_decay)
    cycle = torch.optim.lr_scheduler.OneCycleLR(adamw, variant.lr, variant.steps, pct_start=WARMUP)
    model.train()
    for _, index in zip(range(variant.steps), batches(data, variant.batch, seed), strict=False):
        inputs, labels = data.take(index)
        loss = cross_entropy(model(**inputs).logits.flatten(0, -2), labels.flatten())
        adamw.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
        cycle.step()
        yield loss.item()


def batches(data: One, size: int, seed: int) -> Iterator[Tensor]:
    """Numbers of samples, epoch after epoch, each shuffled anew; what is left over at the end of one is dropped."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from (index for index in data.order(generator).split(size) if len(index) == size)
