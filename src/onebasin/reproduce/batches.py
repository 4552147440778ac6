"""Batches for several models at once: (models, samples, ...), each model in an order of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Generator, Tensor

from onebasin.reproduce.data import Tensors, asked, normalised
from onebasin.tasks import crop_and_flip

GREY = (0.299, 0.587, 0.114)
HELD = 64  # windows of the validation text
Batch = tuple[dict[str, Tensor], Tensor]  # inputs and labels


def endless(data: Tensors, length: int, size: int, seeds: Sequence[int], device: torch.device) -> Iterator[Batch]:
    """Windows from anywhere in the text; or images, epoch after epoch, cropped, flipped and in other colours."""
    orders = [Generator().manual_seed(seed) for seed in seeds]
    if "train.ids" in data:
        ids, window = data["train.ids"].to(device), torch.arange(length + 1, device=device)
        while True:
            starts = torch.stack([torch.randint(len(ids) - len(window), (size,), generator=g) for g in orders])
            yield asked(data, ids[starts.to(device)[..., None] + window].long(), orders[0])
    pixels, labels = data["train.pixels"].to(device), data["train.labels"].to(device)
    drawn = Generator(device).manual_seed(seeds[0])
    while True:
        epochs = torch.stack([torch.randperm(len(labels), generator=g) for g in orders]).to(device)
        for rows in epochs[:, : len(labels) // size * size].split(size, 1):
            augmented = jitter(crop_and_flip(pixels[rows.flatten()] / 255, drawn), drawn)
            yield {"pixel_values": normalised(augmented).unflatten(0, rows.shape)}, labels[rows]


def held_back(data: Tensors, length: int, models: int, device: torch.device) -> Iterator[Batch]:
    """Windows of the validation text, side by side, the same for every model."""
    ids, window = data["valid.ids"].to(device), torch.arange(length + 1, device=device)
    count = min(HELD, len(ids) // len(window))
    starts = torch.arange(count, device=device) * ((len(ids) - len(window)) // count)
    drawn = Generator().manual_seed(0)
    for part in starts.split(16):
        yield asked(data, ids[part.expand(models, -1)[..., None] + window].long(), drawn)


def jitter(pixels: Tensor, generator: Generator) -> Tensor:
    """Brightness, contrast, saturation: away from black, from the mean grey, from the grey picture, or towards it."""

    def grey(x: Tensor) -> Tensor:
        return (x * torch.tensor(GREY, device=x.device)[:, None, None]).sum(1, keepdim=True)

    centres: tuple[Callable[[Tensor], Tensor], ...] = (
        torch.zeros_like, lambda x: grey(x).mean((2, 3), keepdim=True), grey,
    )  # fmt: skip
    for centre in centres:
        factor = 0.6 + 0.8 * torch.rand(len(pixels), 1, 1, 1, generator=generator, device=pixels.device)
        pixels = torch.lerp(centre(pixels), pixels, factor).clamp(0, 1)
    return pixels
