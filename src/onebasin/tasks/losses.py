"""What a model says, and how far that is from what it should say.

A head says logits, and should say a class (the loss is the cross entropy) or, after teachers, the chances p of all
classes (the divergence KL(p | q) of what it says, q: the cross entropy less what no model could do without).
A bare model says vectors in a basis of its own.  What they mean is which inputs are alike, so it says the cosines of a
batch with one another, and should say those that its teachers find: the loss is the mean squared difference.
A loss of the user's own is handed the outputs as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div, normalize

from onebasin.errors import BadTask
from onebasin.tasks.task import IGNORED, LANGUAGE, PAIRED, Measure

Inputs = Mapping[str, Any]
ITSELF = -1.0  # in place of the cosine of a sample with itself, which tells nothing: the least there is


def options_of(kind: str) -> dict[str, bool]:
    """What a model of this kind is told besides its inputs."""
    return {"use_cache": False} if kind in (LANGUAGE, PAIRED) else {}


def cast(inputs: Mapping[str, Tensor], model: nn.Module, device: str | torch.device) -> dict[str, Tensor]:
    """The inputs on a device, numbers in the dtype of the model."""
    dtype = next(model.parameters()).dtype
    return {name: x.to(device, dtype if x.is_floating_point() else x.dtype) for name, x in inputs.items()}


def said(outputs: Any, inputs: Inputs) -> Tensor:
    """The logits of a head; of a bare model the cosines (n, n) between samples, each the mean of its tokens."""
    logits: Tensor | None = getattr(outputs, "logits", None)
    if logits is not None:
        return logits
    states: Tensor = outputs.last_hidden_state
    mask = attended(inputs, states[..., 0]).to(states.dtype)
    vectors = normalize(torch.einsum("ntd,nt->nd", states, mask), dim=-1)
    cosines = vectors @ vectors.T
    own = torch.eye(len(cosines), dtype=torch.bool, device=cosines.device)
    return cosines.masked_fill(own, ITSELF)


def believed(outputs: Any, inputs: Inputs) -> Tensor:
    """What a teacher says, as a target: the chances of every class, or the cosines themselves."""
    x = said(outputs, inputs)
    return x.float() if getattr(outputs, "logits", None) is None else chances(x)


def chances(logits: Tensor) -> Tensor:
    """Of every class, by logits."""
    return logits.float().softmax(-1)


def scores(outputs: Any, inputs: Inputs, target: Tensor, loss: Measure | None = None) -> tuple[Tensor, Tensor]:
    """(the sum of the losses, how many they are) of every sample; one entry for all where `loss` gives their mean."""
    if loss is not None:
        return per_sample("loss", loss(outputs, target), len(target))
    x = said(outputs, inputs)
    if getattr(outputs, "logits", None) is None:
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        return (x - target.to(x.dtype)).square().sum(1), torch.full_like(x[0], len(x) - 1)
    if target.is_floating_point():
        counts = attended(inputs, x[..., 0])
        each = losses_of(x.flatten(0, -2), target.flatten(0, -2)).view_as(counts) * counts
    else:
        each, counts = losses_of(x.flatten(0, -2), target.flatten()), target != IGNORED
    return each.view(len(x), -1).sum(1), counts.reshape(len(x), -1).sum(1)


def losses_of(logits: Tensor, target: Tensor) -> Tensor:
    """The loss (n,) of every row of logits (n, c): by classes (n,), or by the chances (n, c) of all."""
    x = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if target.is_floating_point():
        return kl_div(x.log_softmax(-1), target.to(x.dtype), reduction="none").sum(-1)
    return cross_entropy(x, target, ignore_index=IGNORED, reduction="none")


def per_sample(name: str, value: Any, n: int) -> tuple[Tensor, Tensor]:
    """(sum, how many) of what a function of the user's own gave for n samples: one number for each, or their mean."""
    shape = tuple(value.shape) if isinstance(value, Tensor) else None
    if shape not in ((), (n,)):
        raise BadTask(
            f"{name} gave something else than numbers for the samples",
            expected=f"a tensor of shape ({n},), one number for each sample, or (), their mean",
            found=type(value).__name__ if shape is None else f"a tensor of shape {shape}",
            next_step="return a tensor of one of these shapes",
        )
    counts = torch.full((len(value.view(-1)),), n if shape == () else 1, device=value.device)
    return value.view(-1) * counts, counts


def hits(outputs: Any, inputs: Inputs, target: Tensor) -> tuple[Tensor, Tensor]:
    """(how often the model chooses as it should, out of how many) of every sample."""
    x, classes = said(outputs, inputs), target.argmax(-1) if target.is_floating_point() else target
    kept = classes != IGNORED if classes is target else attended(inputs, x[..., 0]) != 0
    right = (x.argmax(-1) == classes) & kept
    return right.view(len(x), -1).sum(1), kept.reshape(len(x), -1).sum(1)


def mean(sums: Tensor, counts: Tensor) -> Tensor:
    """The loss of a batch."""
    return sums.sum() / counts.sum().clamp_min(1)


def attended(inputs: Inputs, like: Tensor) -> Tensor:
    """Ones, shaped (n,) or (n, T) as `like`, and zeros for padding: where there is a decoder, for that of its texts."""
    mask = inputs.get("decoder_attention_mask", inputs.get("attention_mask"))
    return mask if mask is not None and mask.shape == like.shape else torch.ones_like(like)
