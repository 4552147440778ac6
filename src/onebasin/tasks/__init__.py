"""Tasks: data, labels and the kind of loss, from local files, from the Hub, built in, or made by the models."""

from onebasin.tasks.load import FORMS, as_task, load_task, on_files
from onebasin.tasks.mixture import AnyTask, Mixture, Training, mix, parts_of, training, with_labels
from onebasin.tasks.synthetic import synthetic_task
from onebasin.tasks.task import (
    CLASSIFICATION,
    EMBEDDINGS,
    IGNORED,
    LANGUAGE,
    MASKED,
    PAIRED,
    TAGGING,
    Measure,
    Task,
)
from onebasin.tasks.training import Windows, crop_and_flip

__all__ = [
    "CLASSIFICATION", "EMBEDDINGS", "FORMS", "IGNORED", "LANGUAGE", "MASKED", "PAIRED", "TAGGING", "AnyTask", "Measure",
    "Mixture", "Task", "Training", "Windows", "as_task", "crop_and_flip", "load_task", "mix", "on_files", "parts_of",
    "synthetic_task", "training", "with_labels",
]  # fmt: skip
