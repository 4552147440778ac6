"""A plain training loop: AdamW on all weights of a stock model, on the samples of one task or several."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.stock import source_key, stock_model
from onebasin.checkpoint.views import read_leaf
from onebasin.errors import Diverged
from onebasin.healing.options import Healing
from onebasin.learn.optimizer import rate
from onebasin.processes.devices import own_device, random_numbers
from onebasin.processes.world import World
from onebasin.tasks import IGNORED, Training
from onebasin.tasks.batches import MixedBatches
from onebasin.tasks.losses import cast, mean, options_of, scores

EVERY = 10  # steps between two looks at the loss


def heal(
    checkpoint: Checkpoint, data: Training, options: Healing, *, device: torch.device, world: World | None = None,
    tick: Callable[[str, float, float], None] = lambda step, done, total: None,
) -> tuple[Checkpoint, list[float]]:  # fmt: skip
    """The checkpoint after so many steps on `data`, which has labels; and the mean training loss of every ten steps.

    Every process of a run takes its share of every batch.  The batches depend on `options.seed` alone.
    """
    if not options.steps:
        return checkpoint, []
    world, device = world or World(), own_device(device)
    wide = torch.float64 if options.dtype == "float64" else torch.float32
    model = stock_model(checkpoint, wide).to(device)
    world.average((p.data for p in model.parameters()), 1)  # the same in all processes, whatever they round
    with random_numbers(options.seed + world.rank, device):
        losses = _train(model.train(options.dropout), data, options, device, world, tick)
    return _with_weights(checkpoint, model), losses


def _train(
    model: nn.Module, data: Training, options: Healing, device: torch.device, world: World,
    tick: Callable[[str, float, float], None],
) -> list[float]:  # fmt: skip
    half = options.dtype == "bfloat16" or (options.dtype == "auto" and device.type == "cuda")
    batches = MixedBatches(data.to(device), options.batch, options.seed, augment=options.augment, world=world)
    parameters = [p for p in model.parameters() if p.requires_grad]
    adam = torch.optim.AdamW(parameters, options.lr, weight_decay=options.weight_decay, fused=device.type == "cuda")
    total, losses = torch.zeros((), device=device), []
    for step in range(options.steps):
        for group in adam.param_groups:
            group["lr"] = options.lr * rate(step, options)
        adam.zero_grad()
        for inputs, labels, weight in batches.parts(step, device):
            assert labels is not None
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                outputs = model(**cast(inputs, model, device), **options_of(data.kind))
            loss = weight * mean(*scores(outputs, inputs, labels, data.loss))
            part = loss if world.size == 1 else loss * world.part(_counted(labels, data))
            part.backward()
            total += part.detach()
        world.average([p.grad for p in parameters if p.grad is not None], 1)
        if options.clip:
            nn.utils.clip_grad_norm_(parameters, options.clip)
        adam.step()
        if (step + 1) % EVERY == 0 or step + 1 == options.steps:
            losses.append(_finite(float(world.mean(total)) / (step % EVERY + 1), step + 1))
            total.zero_()
            tick(f"loss {losses[-1]:.4f}", step + 1, options.steps)
    return losses


def _counted(labels: Tensor, data: Training) -> Tensor:
    """How much a mean loss counts: labels, or samples where the loss is the user's own."""
    return torch.tensor(len(labels), device=labels.device) if data.loss else (labels != IGNORED).sum()


def _finite(loss: float, step: int) -> float:
    if not math.isfinite(loss):
        found, again = f"{loss} at step {step} of healing", "use a smaller heal.lr, or heal.dtype float32"
        raise Diverged("The loss is not finite", found=found, next_step=again)
    return loss


def _with_weights(checkpoint: Checkpoint, model: nn.Module) -> Checkpoint:
    """The checkpoint with the weights of its model, which was trained."""
    trained = {source_key(checkpoint.spec, name): p.detach().cpu() for name, p in model.named_parameters()}

    def leaf(name: str) -> Any:
        own = checkpoint.spec.leaves[name]
        return lambda: read_leaf(trained[own.key], own)

    return checkpoint.derive({name: leaf(name) for name in checkpoint})
