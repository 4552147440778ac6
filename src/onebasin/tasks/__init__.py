"""Tasks: data, labels and the kind of loss, from local files, from the Hub, built in, or made by the models."""

from onebasin.tasks.load import FORMS, load_task, on_files
from onebasin.tasks.synthetic import synthetic
from onebasin.tasks.task import CLASSIFICATION, IGNORED, LANGUAGE, Task

__all__ = ["CLASSIFICATION", "FORMS", "IGNORED", "LANGUAGE", "Task", "load_task", "on_files", "synthetic"]
