"""Batch number n of a run, from the seed and n alone: nothing to remember when a run is taken up again."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from onebasin.errors import BadTask
from onebasin.processes.world import World
from onebasin.tasks import Training, crop_and_flip, parts_of
from onebasin.tasks.mixture import One

PIXELS = "pixel_values"
Part = tuple[dict[str, Tensor], Tensor | None, float]


class Batches:
    """Shuffled batches on the device, epoch after epoch; each process of a run takes its share of every batch."""

    def __init__(self, data: One, size: int, seed: int, *, augment: bool, world: World) -> None:
        self.data, self.size, self.seed, self.augment, self.world = data, size, seed, augment, world
        if size > len(data) or size % world.size:
            raise BadTask(
                "The batches do not fit the data or the number of processes",
                expected=f"at most {len(data)} samples, a multiple of {world.size}",
                found=size,
                next_step="give another batch size",
            )
        if augment and not (hasattr(data, "inputs") and PIXELS in data.inputs):
            raise BadTask("Only images can be cropped and flipped", found=data.name, next_step="leave `augment` out")
        self._epoch, self._order = -1, torch.empty(0)

    def __call__(self, n: int, device: torch.device) -> tuple[dict[str, Tensor], Tensor]:
        """The share of this process in batch n.  The permutation of an epoch comes from (seed, epoch)."""
        epoch, place = divmod(n, len(self.data) // self.size)
        if epoch != self._epoch:
            order = self.data.order(torch.Generator().manual_seed(_seed(self.seed, epoch)))
            self._epoch, self._order = epoch, order.to(device)
        share = self.size // self.world.size
        start = place * self.size + self.world.rank * share
        inputs, labels = self.data.take(self._order[start : start + share])
        if self.augment:
            number = _seed(self.seed, n) * self.world.size + self.world.rank
            inputs[PIXELS] = crop_and_flip(inputs[PIXELS], torch.Generator(device).manual_seed(number))
        return inputs, labels

    @property
    def seen(self) -> int:
        """Samples in a batch; of texts, tokens."""
        return self.size * self.data.length

    def parts(self, n: int, device: torch.device) -> Iterator[Part]:
        """Batch n: inputs; labels, or None where there is no truth to learn from; how much its mean loss counts."""
        inputs, labels = self(n, device)
        yield inputs, labels if self.data.labelled else None, 1.0


class MixedBatches:
    """Batches of several tasks: as many samples of each, as far as it has them; mean losses count by the weights."""

    def __init__(self, data: Training, size: int, seed: int, *, augment: bool, world: World) -> None:
        parts = parts_of(data)
        sizes = [min(size // len(parts), len(task)) // world.size * world.size for _, task, _ in parts]
        self.each = [
            (Batches(task, max(n, world.size), seed, augment=augment, world=world), weight)
            for n, (_, task, weight) in zip(sizes, parts, strict=True)
        ]

    @property
    def seen(self) -> int:
        """Samples in a batch; of texts, tokens."""
        return sum(batches.seen for batches, _ in self.each)

    def parts(self, n: int, device: torch.device) -> Iterator[Part]:
        """Batch n of every task."""
        for batches, weight in self.each:
            for inputs, labels, _ in batches.parts(n, device):
                yield inputs, labels, weight


def _seed(seed: int, n: int) -> int:
    """One number for two, without collisions below a million steps."""
    return seed * 1_000_003 + n
