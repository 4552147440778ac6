"""The head of a large vocabulary: its loss in chunks of tokens, so that the logits of a batch never lie in memory.

A chunk's logits are made, scored and dropped, and made again going back.  After teachers, what they say is made chunk
by chunk, too, from the vectors that enter their heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

from onebasin.linalg import mixture, running_shares
from onebasin.moving.blocks import Block, Where
from onebasin.tasks.losses import chances, losses_of
from onebasin.tasks.task import IGNORED
from onebasin.tasks.teachers import look_up, writers

CHUNK = 2**26  # logits in memory at once: 256 MB in float32


@dataclass(frozen=True)
class Taught:
    """What the end points say at λ: the places of them alone, what enters their heads there, and which tokens count."""

    share: Tensor
    ends: Sequence[Where]
    states: Sequence[Tensor]
    counted: Tensor
    written: Tensor | None = None  # the tokens (n, T), where models that write text are weighed by them


Theta = dict[str, Tensor]


class Head(Block):
    """A linear map from the stream to logits."""

    def many(self, tokens: int) -> bool:
        """Whether the logits of so many tokens are too many for one piece."""
        return tokens * self.classes > CHUNK

    @property
    def classes(self) -> int:
        return self.groups[0].layout.length

    def forward(self, where: Where, states: Tensor, target: Tensor | Taught | None = None, **more: Any) -> Any:
        """The logits; with a target, labels or what teachers say, the mean loss."""
        if target is None:
            return super().forward(where, states, **more)
        theta, size = self.theta(where), max(1, CHUNK // self.classes)
        score, wanted = self._scoring(target)
        total, step = (
            states.new_zeros((), dtype=torch.promote_types(states.dtype, torch.float32)),
            partial(score, theta),
        )
        for chunk in zip(states.flatten(0, -2).split(size), *(x.split(size) for x in wanted), strict=True):
            total = total + checkpoint(step, *chunk, use_reentrant=False, preserve_rng_state=False)
        return total / wanted[0].sum().clamp_min(1)

    def _scoring(self, target: Tensor | Taught) -> tuple[Any, tuple[Tensor, ...]]:
        """A function (θ, states, whether they count, ...) to the sum of losses, and its arguments but the first two."""
        if isinstance(target, Tensor):
            return by_labels, (target.flatten() != IGNORED, target.flatten())
        with torch.no_grad():
            heads = [self.theta(end) for end in target.ends]
            shares = self._shares(heads, target)
        states = (x.flatten(0, -2) for x in target.states)
        return partial(by_teachers, heads), (target.counted.flatten(), shares, *states)

    def _shares(self, heads: Sequence[Theta], target: Taught) -> Tensor:
        """What a running mean takes of every teacher, for each token: (n T, M)."""
        if target.written is None:
            return running_shares(target.share.float()).expand(target.counted.numel(), -1)
        size, ids = max(1, CHUNK // self.classes), target.written[:, 1:].flatten()
        each = []
        for head, states in zip(heads, target.states, strict=True):
            pieces = zip(states[:, :-1].flatten(0, -2).split(size), ids.split(size), strict=True)
            found = torch.cat([look_up(chances(logits(head, x)), own) for x, own in pieces])
            each.append(found.view(len(target.written), -1))
        found = writers(each, target.counted, target.share.float())
        return running_shares(found).flatten(1).T


def logits(theta: Theta, states: Tensor) -> Tensor:
    return linear(states, theta["weight"], theta.get("bias"))


def by_labels(theta: Theta, states: Tensor, counted: Tensor, labels: Tensor) -> Tensor:
    """The sum of the cross entropies; labels that do not count have none."""
    return losses_of(logits(theta, states), labels).sum()


def by_teachers(
    heads: Sequence[Theta], theta: Theta, states: Tensor, counted: Tensor, shares: Tensor, *taught: Tensor
) -> Tensor:
    """The sum of the divergences from what the teachers say together."""
    with torch.no_grad():
        target = mixture([chances(logits(head, x)) for head, x in zip(heads, taught, strict=True)], shares.T)
    return (losses_of(logits(theta, states), target) * counted).sum()


def head_of(model: nn.Module) -> str | None:
    """The name of the plain linear map that a model ends with, where it says so."""
    head = model.get_output_embeddings()  # type: ignore[operator]
    return next((name for name, x in model.named_modules() if x is head and type(x) is nn.Linear), None)
