"""Datasets of the Hugging Face Hub, through the optional library `datasets`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from onebasin.checkpoint import Checkpoint
from onebasin.errors import BadTask
from onebasin.spec import Images
from onebasin.tasks.files import label_ids
from onebasin.tasks.images import as_pixels, image_task
from onebasin.tasks.task import EMBEDDINGS, LANGUAGE, MASKED, Task, head_of
from onebasin.tasks.text import labelled_task, language_task

ROLES = {  # what a column is for -> what it is called, unless the user says
    "image": ("image", "img"),
    "text": ("text", "sentence", "content", "tokens"),
    "label": ("label", "labels", "fine_label", "ner_tags", "tags"),
}


def hub_dataset(text: str, checkpoint: Checkpoint, *, samples: int | None, length: int | None) -> Task:
    """`hub:DATASET[[:CONFIG]:SPLIT]`; the split is `test` unless another is given."""
    name, *rest = text.split(":")
    split = rest[-1] if rest else "test"
    rows = _load(name, rest[0] if len(rest) > 1 else None, split)
    about = {"source": name, "split": split}
    return rows_task(rows, checkpoint, f"hub:{text}", about, samples=samples, length=length)


def rows_task(
    rows: Any, checkpoint: Checkpoint, name: str, about: Mapping[str, Any], *, samples: int | None,
    length: int | None, columns: Mapping[str, str] | None = None,
) -> Task:  # fmt: skip
    """The rows of a `datasets.Dataset`; `columns` says which column is the image, the text and the label."""
    column = partial(_column, rows, dataset=about["source"], columns=columns or {})
    kind = head_of(checkpoint)
    reads = checkpoint.spec.reads
    if isinstance(reads, Images):
        images = column("image")
        pictures = [lambda i=i: as_pixels(rows[i][images], reads.channels) for i in range(len(rows))]
        labels = None if kind == EMBEDDINGS else label_ids(list(rows[column("label")]), checkpoint, name)
        return image_task(pictures, labels, checkpoint, name, about, samples)
    texts = list(rows[column("text")])
    if kind in (LANGUAGE, MASKED):
        return language_task("\n".join(texts), checkpoint, name, about, samples, length)
    marks = [None] * len(texts) if kind == EMBEDDINGS else list(rows[column("label")])
    return labelled_task(list(zip(texts, marks, strict=True)), checkpoint, name, about, samples, length)


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


def _column(rows: Any, role: str, *, dataset: str, columns: Mapping[str, str]) -> str:
    names = (columns[role],) if role in columns else ROLES[role]
    for name in names:
        if name in rows.column_names:
            return name
    raise BadTask(
        f"{dataset} lacks a column that the model needs",
        expected=" or ".join(names),
        found=", ".join(rows.column_names),
        next_step=f'say which one it is, in Python: columns={{"{role}": NAME}}; or save the data as a local file',
    )
