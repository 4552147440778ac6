"""Tasks as training data: shuffled samples, windows from anywhere in a text, images cropped and flipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor
from torch.nn.functional import pad

from onebasin.tasks.task import LANGUAGE, Measure, Task, too_few


@dataclass(frozen=True)
class Windows:
    """All of a text, `ids` (n,), to be read in windows of T = `length` tokens; a sample is named by where it starts."""

    name: str
    ids: Tensor
    length: int
    about: Mapping[str, Any]
    kind: str = LANGUAGE
    loss: Measure | None = None
    labelled: ClassVar[bool] = True  # every token is told from those before

    def __len__(self) -> int:
        """Windows in an epoch: side by side from an offset below T."""
        return (len(self.ids) - self.length) // self.length

    def order(self, generator: Generator) -> Tensor:
        """Windows side by side from a random offset, shuffled: an epoch that cuts the text elsewhere every time."""
        offset = torch.randint(self.length, (), generator=generator)
        return offset + self.length * torch.randperm(len(self), generator=generator)

    def take(self, index: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """The windows that start at these tokens, as one batch."""
        windows = self.ids[index[:, None] + torch.arange(self.length + 1, device=index.device)]
        return {"input_ids": windows[:, :-1]}, windows[:, 1:]

    def to(self, device: torch.device | str) -> Windows:
        """The same text on a device."""
        return replace(self, ids=self.ids.to(device))

    def split(self, n: int) -> tuple[Windows, Task]:
        """(the text before, its last n windows)."""
        cut = len(self.ids) - n * self.length - 1
        if n < 1 or cut < 2 * self.length:
            raise too_few(n, max((len(self.ids) - 1) // self.length - 2, 0), self.name)
        inputs, labels = self.take(cut + self.length * torch.arange(n))
        about = {**self.about, "samples": n, "length": self.length}
        return replace(self, ids=self.ids[:cut]), Task(self.name, self.kind, inputs, labels, about, loss=self.loss)


def crop_and_flip(pixels: Tensor, generator: Generator) -> Tensor:
    """Images (n, c, h, w), each shifted by up to an eighth (edges mirrored) and half of them flipped."""
    n, _, h, w = pixels.shape
    margin_y, margin_x = h // 8, w // 8
    padded = pad(pixels, (margin_x, margin_x, margin_y, margin_y), mode="reflect")

    def draw(count: int) -> Tensor:
        return torch.randint(count, (n, 1), generator=generator, device=pixels.device)

    top, left, flip = draw(2 * margin_y + 1), draw(2 * margin_x + 1), draw(2).bool()
    rows = top + torch.arange(h, device=pixels.device)
    across = torch.arange(w, device=pixels.device)
    columns = left + torch.where(flip, w - 1 - across, across)
    image = torch.arange(n, device=pixels.device)[:, None, None]
    shifted: Tensor = padded.permute(0, 2, 3, 1)[image, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    return shifted
