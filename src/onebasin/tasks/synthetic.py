"""Inputs that need no data: what the models themselves say, and pictures of nothing in particular.

A language model samples the text it was trained on: windows are drawn from it, token by token.  A model that only
reads gets random words, and one that sees gets dead leaves: opaque shapes of random place, size and colour on top of
each other, whose edges, flat regions and range of scales are those of photographs [1].  There are no labels.

[1] A. Lee, D. Mumford, J. Huang, Occlusion models for natural images, IJCV 41 (2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.stock import ended, stock_model
from onebasin.errors import BadTask
from onebasin.processes.devices import random_numbers
from onebasin.spec import Images
from onebasin.tasks.images import image_task, reads_images
from onebasin.tasks.task import IGNORED, LANGUAGE, MADE, SYNTHETIC, Task, head_of, too_few
from onebasin.tasks.tokens import put_around, reads_tokens, sequence_length, tokenizer_of

WINDOWS, PICTURES = 1000, 4000  # texts and images where no number is asked for
LEAVES = 30  # shapes in a picture
LONGEST = 256  # tokens of a window where no length is asked for, at most


def synthetic_task(
    models: Sequence[Checkpoint], *, samples: int | None = None, length: int | None = None, seed: int = 0,
    device: torch.device | str = "cpu",
) -> Task:  # fmt: skip
    """Inputs for `models` of one class, which share the writing of them if they can write."""
    if samples is not None and samples < 1:
        raise BadTask("No inputs were asked for", expected="at least 1", found=samples, next_step="ask for some")
    if samples is not None and samples > MADE:
        raise too_few(samples, MADE, SYNTHETIC)
    first = models[0]
    if isinstance(first.spec.reads, Images):
        return _pictures(first, samples or PICTURES, seed)
    size = sequence_length(first, length, LONGEST)
    if head_of(first) == LANGUAGE:
        return _windows(models, samples or WINDOWS, size, seed, device)
    return _words(first, samples or WINDOWS, size, seed)


def dead_leaves(number: int, seed: int, height: int, width: int, channels: int) -> NDArray[np.uint8]:
    """Picture `number`: discs and squares, stretched and turned, shaded, small ones the most frequent."""
    rng = np.random.default_rng([seed, number])
    y, x = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    picture = np.broadcast_to(rng.random(channels), (height, width, channels))
    for _ in range(LEAVES):
        size = min(height, width) * (0.085 + 0.47 * rng.random() ** 3)
        dx, dy, tilt, stretch = x - width * rng.random(), y - height * rng.random(), np.pi * rng.random(), rng.random()
        u = (dx * np.cos(tilt) + dy * np.sin(tilt)) / (0.4 + 1.2 * stretch)
        v = (dy * np.cos(tilt) - dx * np.sin(tilt)) * (0.4 + 1.2 * stretch)
        inside = np.hypot(u, v) < size if rng.random() < 0.5 else np.maximum(abs(u), abs(v)) < size
        colour = 0.6 * rng.random(channels) + 0.4 * rng.random()
        slope_x, slope_y = 0.3 * rng.standard_normal(2)
        shade = 1 + slope_x * (x / width - 0.5) + slope_y * (y / height - 0.5)
        picture = np.where(inside[:, :, None], colour * shade[:, :, None], picture)
    grain = 0.03 * rng.standard_normal((height, width, channels))
    return np.round(255 * (picture + grain).clip(0, 1)).astype(np.uint8)


def _pictures(checkpoint: Checkpoint, samples: int, seed: int) -> Task:
    reads = reads_images(checkpoint)
    pictures = [partial(dead_leaves, i, seed, reads.height, reads.width, reads.channels) for i in range(samples)]
    about = {"source": "synthetic: dead leaves", "seed": seed}
    return image_task(pictures, None, checkpoint, SYNTHETIC, about, samples)


def _windows(models: Sequence[Checkpoint], samples: int, length: int, seed: int, device: torch.device | str) -> Task:
    """Sampled from each model in turn, at temperature 1, from its first token or any."""
    shares = [len(range(i, samples, len(models))) for i in range(len(models))]
    made = []
    with random_numbers(seed, torch.device(device)):
        for checkpoint, share in zip(models, shares, strict=True):
            if share:
                model = stock_model(checkpoint, torch.float32).to(device)
                made.append(_sampled(model, _first_tokens(checkpoint, share).to(device), length + 1))
    windows = torch.cat(made).cpu()
    about = {"source": "synthetic: sampled from the models", "seed": seed, "samples": samples, "length": length}
    inputs = {"input_ids": windows[:, :-1].contiguous()}
    return Task(SYNTHETIC, LANGUAGE, inputs, windows[:, 1:].contiguous(), about)


def _first_tokens(checkpoint: Checkpoint, count: int) -> Tensor:
    """The token that begins a text, where the tokenizer has one; else tokens drawn uniformly."""
    vocabulary, tokenizer = reads_tokens(checkpoint).vocabulary, tokenizer_of(checkpoint)
    begin = getattr(tokenizer, "bos_token_id", None)
    if begin is not None and begin < vocabulary:
        return torch.full((count, 1), begin)
    return torch.randint(vocabulary, (count, 1))


def _sampled(model: Any, first: Tensor, length: int, batch: int = 500) -> Tensor:
    from transformers import GenerationConfig

    plain = GenerationConfig(do_sample=True, top_k=0, top_p=1.0, temperature=1.0, max_length=length, min_length=length,
                             eos_token_id=None, pad_token_id=0, use_cache=True)  # fmt: skip
    model.generation_config = GenerationConfig()
    parts = [
        model.generate(input_ids=part, attention_mask=torch.ones_like(part), generation_config=plain)
        for part in first.split(batch)
    ]
    return torch.cat(parts)


def _words(checkpoint: Checkpoint, samples: int, length: int, seed: int) -> Task:
    """Words drawn uniformly, between the tokens that the tokenizer puts around a text."""
    vocabulary, tokenizer = reads_tokens(checkpoint).vocabulary, tokenizer_of(checkpoint)
    special = set() if tokenizer is None else set(tokenizer.all_special_ids)
    words = torch.tensor([i for i in range(vocabulary) if i not in special])
    generator = torch.Generator().manual_seed(seed)
    inputs: dict[str, Tensor] = {}
    for name, kind in checkpoint.spec.inputs.items():
        ids = words[torch.randint(len(words), (samples, length), generator=generator)]
        ids = ended(put_around(ids, tokenizer), kind)
        inputs |= {name: ids, name.replace("input_ids", "attention_mask"): torch.ones_like(ids)}
    about = {"source": "synthetic: random words", "seed": seed, "samples": samples, "length": length}
    return Task(SYNTHETIC, head_of(checkpoint), inputs, torch.full((samples,), IGNORED), about)
