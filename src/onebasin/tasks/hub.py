"""Datasets of the Hugging Face Hub, through the optional library `datasets`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onebasin.checkpoint import Checkpoint
from onebasin.errors import BadTask
from onebasin.spec import Images
from onebasin.tasks.images import image_task
from onebasin.tasks.labels import label_ids
from onebasin.tasks.task import Task
from onebasin.tasks.text import labelled_task, language_task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_IMAGES, _TEXTS, _LABELS = ("image", "img"), ("text", "sentence", "content"), ("label", "labels", "fine_label")


def hub_dataset(text: str, checkpoint: Checkpoint, *, samples: int | None, length: int | None) -> Task:
    """`hub:DATASET[[:CONFIG]:SPLIT]`; the split is `test` unless another is given."""
    name, *rest = text.split(":")
    split = rest[-1] if rest else "test"
    rows = _load(name, rest[0] if len(rest) > 1 else None, split)
    about, title = {"source": name, "split": split}, f"hub:{text}"
    if isinstance(checkpoint.spec.inputs, Images):
        images, column = _column(rows, _IMAGES, name), rows[_column(rows, _LABELS, name)]
        pictures = [lambda i=i: _pixels(rows[i][images], checkpoint) for i in range(len(rows))]
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


def _pixels(picture: Any, checkpoint: Checkpoint) -> NDArray[np.uint8]:
    import numpy as np

    grey = isinstance(checkpoint.spec.inputs, Images) and checkpoint.spec.inputs.channels == 1
    pixels: NDArray[np.uint8] = np.asarray(picture.convert("L" if grey else "RGB"))
    return pixels if pixels.ndim == 3 else pixels[:, :, None]
