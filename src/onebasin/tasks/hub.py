"""Datasets of the Hugging Face Hub, through the optional library `datasets`."""

from __future__ import annotations

from typing import Any

from onebasin.checkpoint import Checkpoint
from onebasin.errors import BadTask
from onebasin.spec import Images
from onebasin.tasks.files import label_ids
from onebasin.tasks.images import as_pixels, image_task
from onebasin.tasks.task import Task
from onebasin.tasks.text import labelled_task, language_task

_IMAGES, _TEXTS, _LABELS = ("image", "img"), ("text", "sentence", "content"), ("label", "labels", "fine_label")


def hub_dataset(text: str, checkpoint: Checkpoint, *, samples: int | None, length: int | None) -> Task:
    """`hub:DATASET[[:CONFIG]:SPLIT]`; the split is `test` unless another is given."""
    name, *rest = text.split(":")
    split = rest[-1] if rest else "test"
    rows = _load(name, rest[0] if len(rest) > 1 else None, split)
    about, title = {"source": name, "split": split}, f"hub:{text}"
    reads = checkpoint.spec.inputs
    if isinstance(reads, Images):
        images, column = _column(rows, _IMAGES, name), rows[_column(rows, _LABELS, name)]
        pictures = [lambda i=i: as_pixels(rows[i][images], reads.channels) for i in range(len(rows))]
        return image_task(pictures, label_ids(list(column), checkpoint, name), checkpoint, title, about, samples)
    texts = list(rows[_column(rows, _TEXTS, name)])
    if any(label in rows.column_names for label in _LABELS):
        labels = list(rows[_column(rows, _LABELS, name)])
        return labelled_task(list(zip(texts, labels, strict=True)), checkpoint, title, about, samples, length)
    return language_task("\n".join(texts), checkpoint, title, about, samples, length)


def _load(name: str, config: str | None, split: str) -> Any:
    try:
        import datasets
    except ImportError as error:
        step = "pip install 'onebasin[hub]', or give a local file (images:, text:, labelled:)"
        raise BadTask("Hub datasets need the library `datasets`", found="not installed", next_step=step) from error
    try:
        return datasets.load_dataset(name, config, split=split)
    except (OSError, ValueError) as error:
        step = "check name, configuration and split on the dataset's Hub page: hub:DATASET:CONFIG:SPLIT"
        raise BadTask(f"The Hub dataset {name} could not be loaded", found=error, next_step=step) from error


def _column(rows: Any, names: tuple[str, ...], dataset: str) -> str:
    for name in names:
        if name in rows.column_names:
            return name
    raise BadTask(
        f"{dataset} lacks a column that the model needs",
        expected=" or ".join(names),
        found=", ".join(rows.column_names),
        next_step="save the dataset as a local file with these columns",
    )
