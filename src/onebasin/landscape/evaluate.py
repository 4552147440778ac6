"""Loss and metrics of one model on one task."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from onebasin.errors import BadTask
from onebasin.tasks import IGNORED, LANGUAGE, Task

BATCH = 64
METRICS = ("bits_per_byte", "perplexity", "accuracy")  # the first that was measured says most


@dataclass(frozen=True)
class Evaluation:
    """Mean cross entropy in nats per label, with its standard error over samples (images, texts, windows).

    `metric_errors` are the standard errors of the metrics.
    """

    loss: float
    metrics: dict[str, float]
    standard_error: float
    samples: int
    losses: Tensor = field(repr=False, compare=False)  # one per sample, for paired differences
    metric_errors: dict[str, float] = field(default_factory=dict)


def standard_error(values: Tensor) -> float:
    """s/√N, with s the sample standard deviation; 0 for a single value, which has none."""
    return float(values.std() / math.sqrt(len(values))) if len(values) > 1 else 0.0


class Tally:
    """Losses and hits of every sample, batch by batch; sums are float64."""

    def __init__(self) -> None:
        self.batches: list[Tensor] = []  # summed loss, hits and number of labels, each by sample

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Count one batch."""
        rows, flat = logits.flatten(0, -2), labels.flatten()
        rows = rows.float() if rows.dtype.itemsize < 4 else rows
        each = cross_entropy(rows, flat, ignore_index=IGNORED, reduction="none")
        found = (each, rows.argmax(-1) == flat, flat != IGNORED)
        self.batches.append(torch.stack([x.double().view(len(labels), -1).sum(1) for x in found]).cpu())

    def result(self, task: Task) -> Evaluation:
        """What all batches say together."""
        total, hits, count = torch.cat(self.batches, 1)
        loss, accuracy = float(total.sum() / count.sum()), float(hits.sum() / count.sum())
        if not math.isfinite(loss):
            raise BadTask(
                "The loss of a model is not finite",
                expected="a finite cross entropy",
                found=f"{loss} on {task.name}",
                next_step="check both models with `onebasin verify`, and use float32",
            )
        losses, right = total / count.clamp_min(1), hits / count.clamp_min(1)
        error = standard_error(losses)
        metrics, errors = {"accuracy": accuracy}, {"accuracy": standard_error(right)}
        if task.kind == LANGUAGE:
            metrics["perplexity"] = math.exp(min(loss, 700.0))
            errors["perplexity"] = metrics["perplexity"] * error
            if task.about.get("tokens") == "bytes":
                metrics["bits_per_byte"], errors["bits_per_byte"] = (x / math.log(2) for x in (loss, error))
        return Evaluation(loss, metrics, error, len(task), losses, errors)


@torch.no_grad()
def evaluate(
    model: nn.Module, task: Task, *, batch_size: int = BATCH, device: str | torch.device = "cpu"
) -> Evaluation:
    """Run `model`, which is on `device`, over the whole task in its own dtype."""
    tally = Tally()
    for logits, labels in predictions(model, task, batch_size, device):
        tally.add(logits, labels)
    return tally.result(task)


def predictions(
    model: nn.Module, task: Task, batch_size: int, device: str | torch.device
) -> Iterator[tuple[Tensor, Tensor]]:
    """(logits, labels) of every batch."""
    model.eval()
    dtype = next(model.parameters()).dtype
    extra = {"use_cache": False} if task.kind == LANGUAGE else {}
    for inputs, labels in task.batches(batch_size):
        cast = {n: x.to(device, dtype if x.is_floating_point() else x.dtype) for n, x in inputs.items()}
        yield model(**cast, **extra).logits, labels.to(device)
