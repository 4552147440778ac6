"""Class numbers from class names, in the model's own order where it has one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onebasin.checkpoint import Checkpoint
from onebasin.errors import BadTask


def class_order(names: Sequence[str], checkpoint: Checkpoint) -> dict[str, int]:
    """name -> class: the model's `label2id` if it knows every name, else by sorted name."""
    known = {str(name).lower(): int(i) for name, i in (checkpoint.config.get("label2id") or {}).items()}
    wanted = sorted(set(names))
    if all(name.lower() in known for name in wanted):
        return {name: known[name.lower()] for name in wanted}
    strangers = [name for name in wanted if name.lower() not in known]
    if known and len(strangers) < len(wanted):
        raise BadTask(
            "Some class names are the model's own, and some are not",
            expected=", ".join(sorted(known)),
            found=", ".join(strangers),
            next_step="name the classes as label2id in config.json does",
        )
    return {name: i for i, name in enumerate(wanted)}


def label_ids(labels: Sequence[Any], checkpoint: Checkpoint, source: str) -> list[int]:
    """Class numbers, given as numbers (also written as text) or as names."""
    if all(isinstance(label, int) or (isinstance(label, str) and label.lstrip("-").isdigit()) for label in labels):
        return [int(label) for label in labels]
    if not all(isinstance(label, str) for label in labels):
        odd = next(label for label in labels if not isinstance(label, (int, str)) or isinstance(label, int))
        step = "give class numbers, or class names, for all samples"
        raise BadTask(
            f"The labels of {source} are of mixed kinds", expected="names or numbers", found=odd, next_step=step
        )
    order = class_order(labels, checkpoint)
    return [order[label] for label in labels]
