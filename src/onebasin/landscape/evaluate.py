"""Loss and metrics of one model on one task."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from onebasin.errors import BadTask
from onebasin.tasks import LANGUAGE, Task
from onebasin.tasks.losses import cast, hits, options_of, per_sample, scores

BATCH = 64


@dataclass(frozen=True)
class Evaluation:
    """Mean loss (cross entropy: in nats per label), with its standard error over samples (images, texts, windows)."""

    loss: float
    metrics: dict[str, float]
    standard_error: float
    samples: int
    losses: Tensor = field(repr=False, compare=False)  # one per sample (or batch), for paired differences


def standard_error(values: Tensor) -> float:
    """s/√N, with s the sample standard deviation; 0 for a single value, which has none."""
    return float(values.std() / math.sqrt(len(values))) if len(values) > 1 else 0.0


@torch.no_grad()
def evaluate(
    model: nn.Module, task: Task, *, target: Callable[[Mapping[str, Tensor]], Tensor] | None = None,
    batch_size: int = BATCH, device: str | torch.device = "cpu",
) -> Evaluation:  # fmt: skip
    """Run `model`, which is on `device`, over the whole task in its own dtype; sums are float64.

    `target` says what the model should say on some inputs; without it, the labels and the loss of the task do.  The
    loss is then the divergence KL(target | model), or how far the cosines are from those of the target.
    """
    if target is None and not task.scored:
        raise _nothing_to_measure(task)
    model.eval()
    totals: dict[str, list[tuple[Tensor, Tensor]]] = {}
    for given, marks in task.batches(batch_size):
        inputs, labels = cast(given, model, device), marks.to(device)
        outputs = model(**inputs, **options_of(task.kind))
        wanted, own = (labels, task.loss) if target is None else (target(inputs), None)
        sums, counts = scores(outputs, inputs, wanted, own)
        found = {"loss": (sums if target is None else sums.clamp_min(0), counts)}  # no divergence is negative
        if own is None:
            found["accuracy" if target is None else "agreement"] = hits(outputs, inputs, wanted)
        for name, metric in task.metrics.items():
            found[name] = per_sample(name, metric(outputs, labels), len(labels))
        for name, parts in found.items():
            totals.setdefault(name, []).append((parts[0].double().cpu(), parts[1].double().cpu()))
    joined = {name: tuple(map(torch.cat, zip(*parts, strict=True))) for name, parts in totals.items()}
    total, count = joined.pop("loss")
    if not count.sum():
        raise _nothing_to_measure(task)
    loss, losses = float(total.sum() / count.sum()), total / count.clamp_min(1)
    _check_finite(loss, task)
    means = {name: float(each.sum() / number.sum()) for name, (each, number) in joined.items()}
    if target is None and task.loss is None and task.kind == LANGUAGE:
        means |= _in_other_words(task, loss)
    return Evaluation(loss, means, standard_error(losses), len(task), losses)


def _in_other_words(task: Task, loss: float) -> dict[str, float]:
    """What the loss of a text says."""
    bits = {"bits_per_byte": loss / math.log(2)} if task.about.get("tokens") == "bytes" else {}
    return {"perplexity": math.exp(min(loss, 700.0)), **bits}


def _nothing_to_measure(task: Task) -> BadTask:
    return BadTask(
        "There is nothing to measure",
        expected="labels; between models without a head, batches of two samples or more",
        found=f"{task.name}, {len(task)} samples without labels",
        next_step="give labelled data, or measure between models (onebasin barrier), which says how far they agree",
    )


def _check_finite(loss: float, task: Task) -> None:
    if not math.isfinite(loss):
        raise BadTask(
            "The loss of a model is not finite",
            expected="a finite number",
            found=f"{loss} on {task.name}",
            next_step="check both models with `onebasin verify`, and use float32",
        )


def pick_device(name: str) -> torch.device:
    """`auto` is a GPU where there is one."""
    if name not in ("auto", "cpu", "cuda"):
        raise BadTask(f"There is no device {name!r}", expected="auto, cpu or cuda", found=name, next_step="use auto")
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise BadTask("torch finds no GPU here", expected="cuda", found="cpu only", next_step="use --device cpu")
    return torch.device("cuda" if there and name != "cpu" else "cpu")
