"""Tasks: data, labels and the kind of loss, from local files, from the Hub, built in, or made by the models."""

from onebasin.tasks.load import FORMS, as_task, load_task, on_files
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
from onebasin.tasks.training import Training, Windows, crop_and_flip, training

__all__ = [
    "CLASSIFICATION", "EMBEDDINGS", "FORMS", "IGNORED", "LANGUAGE", "MASKED", "PAIRED", "TAGGING", "Measure", "Task",
    "Training", "Windows", "as_task", "crop_and_flip", "load_task", "on_files", "synthetic_task", "training",
]  # fmt: skip
