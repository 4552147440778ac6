"""Loss and metrics of one model on one task."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from onebasin.errors import BadTask
from onebasin.tasks import LANGUAGE, PAIRED, Task
from onebasin.tasks.losses import cast, hits, options_of, per_sample, scores

BATCH = 64
METRICS = ("bits_per_byte", "perplexity", "accuracy", "agreement")  # the first that was measured says most
Target = Callable[[Mapping[str, Tensor]], Tensor]


@dataclass(frozen=True)
class Evaluation:
    """Mean loss (cross entropy: in nats per label), with its standard error over samples (images, texts, windows).

    `metric_errors` are the standard errors of the metrics.
    """

    loss: float
    metrics: dict[str, float]
    standard_error: float
    samples: int
    losses: Tensor = field(repr=False, compare=False)  # one per sample (or batch), for paired differences
    metric_errors: dict[str, float] = field(default_factory=dict)


def standard_error(values: Tensor) -> float:
    """Of the mean of independent samples."""
    return float(values.std() / math.sqrt(len(values))) if len(values) > 1 else 0.0


class Tally:
    """Losses and metrics of every sample on a task, batch by batch; sums are float64.

    `target` says what the model should say on some inputs; without it, the labels and the loss of the task do.  The
    loss is then the divergence KL(target | model), or how far the cosines are from those of the target.
    """

    def __init__(self, task: Task, target: Target | None = None) -> None:
        if target is None and not task.scored:
            raise _nothing_to_measure(task)
        self.task, self.target = task, target
        self.totals: dict[str, list[tuple[Tensor, Tensor]]] = {}  # name -> (sum, how many) of every sample

    def add(self, outputs: Any, inputs: Mapping[str, Tensor], labels: Tensor) -> None:
        """Count one batch."""
        wanted, own = (labels, self.task.loss) if self.target is None else (self.target(inputs), None)
        sums, counts = scores(outputs, inputs, wanted, own)
        found = {"loss": (sums if self.target is None else sums.clamp_min(0), counts)}  # no divergence is negative
        if own is None:
            found["accuracy" if self.target is None else "agreement"] = hits(outputs, inputs, wanted)
        for name, metric in self.task.metrics.items():
            found[name] = per_sample(name, metric(outputs, labels), len(labels))
        for name, (each, number) in found.items():
            self.totals.setdefault(name, []).append((each.double().cpu(), number.double().cpu()))

    def result(self) -> Evaluation:
        """What all batches say together."""
        joined = {name: tuple(map(torch.cat, zip(*parts, strict=True))) for name, parts in self.totals.items()}
        total, count = joined.pop("loss")
        if not count.sum():
            raise _nothing_to_measure(self.task)
        loss, losses = float(total.sum() / count.sum()), total / count.clamp_min(1)
        if not math.isfinite(loss):
            raise BadTask(
                "The loss of a model is not finite",
                expected="a finite number",
                found=f"{loss} on {self.task.name}",
                next_step="check both models with `onebasin verify`, and use float32",
            )
        error = standard_error(losses)
        means = {name: float(each.sum() / number.sum()) for name, (each, number) in joined.items()}
        errors = {name: standard_error(each / number.clamp_min(1)) for name, (each, number) in joined.items()}
        if self.target is None and self.task.loss is None and self.task.kind in (LANGUAGE, PAIRED):
            means["perplexity"] = math.exp(min(loss, 700.0))
            errors["perplexity"] = means["perplexity"] * error
            if self.task.about.get("tokens") == "bytes":
                means["bits_per_byte"], errors["bits_per_byte"] = (x / math.log(2) for x in (loss, error))
        return Evaluation(loss, means, error, len(self.task), losses, errors)


@torch.no_grad()
def evaluate(
    model: nn.Module, task: Task, *, target: Target | None = None, batch_size: int = BATCH,
    device: str | torch.device = "cpu",
) -> Evaluation:  # fmt: skip
    """Run `model`, which is on `device`, over the whole task in its own dtype; `target` as in `Tally`."""
    tally = Tally(task, target)
    for batch in predictions(model, task, batch_size, device):
        tally.add(*batch)
    return tally.result()


def predictions(
    model: nn.Module, task: Task, batch_size: int, device: str | torch.device
) -> Iterator[tuple[Any, dict[str, Tensor], Tensor]]:
    """(what the model says, inputs, labels) of every batch."""
    model.eval()
    for given, marks in task.batches(batch_size):
        inputs = cast(given, model, device)
        yield model(**inputs, **options_of(task.kind)), inputs, marks.to(device)


def _nothing_to_measure(task: Task) -> BadTask:
    return BadTask(
        "There is nothing to measure",
        expected="labels; between models without a head, batches of two samples or more",
        found=f"{task.name}, {len(task)} samples without labels",
        next_step="give labelled data, or measure between models (onebasin barrier), which says how far they agree",
    )
