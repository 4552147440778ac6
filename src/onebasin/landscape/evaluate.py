"""Loss and metrics of one model on one task."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from onebasin.errors import BadTask
from onebasin.tasks import IGNORED, LANGUAGE, Task

BATCH = 64


@dataclass(frozen=True)
class Evaluation:
    """Mean cross entropy in nats per label, with its standard error over samples (images, texts, windows)."""

    loss: float
    metrics: dict[str, float]
    standard_error: float
    samples: int
    losses: Tensor = field(repr=False, compare=False)  # one per sample, for paired differences


def standard_error(values: Tensor) -> float:
    """s/√N, with s the sample standard deviation; 0 for a single value, which has none."""
    return float(values.std() / math.sqrt(len(values))) if len(values) > 1 else 0.0


@torch.no_grad()
def evaluate(
    model: nn.Module, task: Task, *, batch_size: int = BATCH, device: str | torch.device = "cpu"
) -> Evaluation:
    """Run `model`, which is on `device`, over the whole task in its own dtype; sums are float64."""
    model.eval()
    dtype = next(model.parameters()).dtype
    extra = {"use_cache": False} if task.kind == LANGUAGE else {}
    sums, counts, hits = [], [], 0
    for inputs, labels in task.batches(batch_size):
        cast = {n: x.to(device, dtype if x.is_floating_point() else x.dtype) for n, x in inputs.items()}
        labels = labels.to(device)
        rows, flat = model(**cast, **extra).logits.flatten(0, -2), labels.flatten()
        each = cross_entropy(
            rows.float() if rows.dtype.itemsize < 4 else rows, flat, ignore_index=IGNORED, reduction="none"
        )
        sums.append(each.cpu().double().view(len(labels), -1).sum(1))
        counts.append((labels != IGNORED).view(len(labels), -1).sum(1).cpu())
        hits += int((rows.argmax(-1) == flat).sum())
    total, count = torch.cat(sums), torch.cat(counts)
    loss, labelled = float(total.sum() / count.sum()), int(count.sum())
    if not math.isfinite(loss):
        raise BadTask(
            "The loss of a model is not finite",
            expected="a finite cross entropy",
            found=f"{loss} on {task.name}",
            next_step="check both models with `onebasin verify`, and use float32",
        )
    losses = total / count.clamp_min(1)
    return Evaluation(loss, _metrics(task, loss, hits / labelled), standard_error(losses), len(task), losses)


def _metrics(task: Task, loss: float, accuracy: float) -> dict[str, float]:
    metrics = {"accuracy": accuracy}
    if task.kind == LANGUAGE:
        metrics["perplexity"] = math.exp(min(loss, 700.0))
        if task.about.get("tokens") == "bytes":
            metrics["bits_per_byte"] = loss / math.log(2)
    return metrics
