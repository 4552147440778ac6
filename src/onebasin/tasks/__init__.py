"""Tasks: data, labels and the kind of loss, from local files, from the Hub, or built in."""

from onebasin.tasks.load import FORMS, load_task, on_files
from onebasin.tasks.task import CLASSIFICATION, IGNORED, LANGUAGE, Task

__all__ = ["CLASSIFICATION", "FORMS", "IGNORED", "LANGUAGE", "Task", "load_task", "on_files"]
