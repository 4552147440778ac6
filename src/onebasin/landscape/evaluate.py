"""Loss and metrics of one model on one task."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from onebasin.errors import BadTask
from onebasin.tasks import LANGUAGE, MASKED, PAIRED, AnyTask, Mixture, Task, parts_of
from onebasin.tasks.losses import cast, hits, options_of, per_sample, scores

BATCH = 64
LOGITS = 2**28  # numbers in the logits of a batch, at most
METRICS = ("bits_per_byte", "perplexity", "accuracy", "agreement")  # the first that was measured says most
Target = Callable[[Mapping[str, Tensor]], Tensor]


@dataclass(frozen=True)
class Evaluation:
    """Mean loss (cross entropy: in nats per label), with its standard error over samples (images, texts, windows).

    `metric_errors` are the standard errors of the metrics.  Of several tasks all of these are means by their `weights`,
    and `parts` are what was measured on each.
    """

    loss: float
    metrics: dict[str, float]
    standard_error: float
    samples: int
    losses: Tensor = field(repr=False, compare=False)  # one per sample (or batch), for paired differences
    metric_errors: dict[str, float] = field(default_factory=dict)
    parts: Mapping[str, Evaluation] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)

    def plain(self, *more: str) -> dict[str, Any]:
        """The figures as plain data, with `more` of them; and of several tasks those of each."""
        kept = ("loss", "standard_error", "metrics", *more, "samples")
        tasks = {name: {"weight": self.weights[name], **part.plain(*more)} for name, part in self.parts.items()}
        return {**{name: getattr(self, name) for name in kept}, **({"tasks": tasks} if tasks else {})}


def standard_error(values: Tensor) -> float:
    """Of the mean of independent samples."""
    return float(values.std() / math.sqrt(len(values))) if len(values) > 1 else 0.0


def error_of(terms: Sequence[tuple[float, Evaluation]]) -> float:
    """Standard error of Σ_i c_i L_i, sample by sample, over evaluations on the same samples.

    Samples of different tasks are independent: of Σ_t w_t Σ_i c_i L_it it is the root of Σ_t w_t² error_t².
    """
    first = terms[0][1]
    if not first.parts:
        return standard_error(sum(factor * one.losses for factor, one in terms))  # type: ignore[arg-type]
    each = {name: error_of([(factor, one.parts[name]) for factor, one in terms]) for name in first.parts}
    return math.hypot(*(first.weights[name] * error for name, error in each.items()))


def mean_of(parts: Mapping[str, Evaluation], weights: Mapping[str, float]) -> Evaluation:
    """Σ_t w_t of what was measured on each task t; of metrics those that all tasks have."""
    shared = [name for name in next(iter(parts.values())).metrics if all(name in x.metrics for x in parts.values())]
    found = Evaluation(
        sum(weights[name] * part.loss for name, part in parts.items()),
        {m: sum(weights[name] * part.metrics[m] for name, part in parts.items()) for m in shared},
        math.hypot(*(weights[name] * part.standard_error for name, part in parts.items())),
        sum(part.samples for part in parts.values()),
        torch.cat([part.losses for part in parts.values()]),
        {m: math.hypot(*(weights[n] * part.metric_errors.get(m, 0.0) for n, part in parts.items())) for m in shared},
    )
    if "perplexity" in shared:  # that of the mean loss
        found.metrics["perplexity"], found.metric_errors["perplexity"] = perplexity(found.loss, found.standard_error)
    return replace(found, parts=parts, weights={name: weights[name] for name in parts})


def perplexity(loss: float, error: float) -> tuple[float, float]:
    """exp L, and its standard error."""
    value = math.exp(min(loss, 700.0))
    return value, value * error


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
            means["perplexity"], errors["perplexity"] = perplexity(loss, error)
            if self.task.about.get("tokens") == "bytes":
                means["bits_per_byte"], errors["bits_per_byte"] = (x / math.log(2) for x in (loss, error))
        return Evaluation(loss, means, error, len(self.task), losses, errors)


@torch.no_grad()
def evaluate(
    model: nn.Module, task: AnyTask, *, target: Target | None = None, batch_size: int = BATCH,
    device: str | torch.device = "cpu",
) -> Evaluation:  # fmt: skip
    """Run `model`, which is on `device`, over the whole task in its own dtype; `target` as in `Tally`.

    Of several tasks only those without labels take the target.
    """
    if isinstance(task, Mixture):
        each = {
            name: evaluate(model, one, target=None if one.scored else target, batch_size=batch_size, device=device)  # type: ignore[arg-type, union-attr]
            for name, one, _ in parts_of(task)
        }
        return mean_of(each, task.weights)
    tally = Tally(task, target)
    for batch in predictions(model, task, batch_size, device):
        tally.add(*batch)
    return tally.result()


def predictions(
    model: nn.Module, task: Task, batch_size: int, device: str | torch.device
) -> Iterator[tuple[Any, dict[str, Tensor], Tensor]]:
    """(what the model says, inputs, labels) of every batch."""
    model.eval()
    for given, marks in task.batches(fitting(model, task, batch_size)):
        inputs = cast(given, model, device)
        yield model(**inputs, **options_of(task.kind)), inputs, marks.to(device)


def fitting(model: nn.Module, task: Task, batch_size: int) -> int:
    """At most so many samples that their logits, a row of the vocabulary for each token, take a gigabyte."""
    if task.kind not in (LANGUAGE, MASKED, PAIRED):
        return batch_size
    row = getattr(getattr(model, "config", None), "vocab_size", 1)
    return max(1, min(batch_size, LOGITS // (task.length * row)))


def _nothing_to_measure(task: Task) -> BadTask:
    return BadTask(
        "There is nothing to measure",
        expected="labels; between models without a head, batches of two samples or more",
        found=f"{task.name}, {len(task)} samples without labels",
        next_step="give labelled data, or measure between models (onebasin barrier), which says how far they agree",
    )
