"""From the words after `--task`, or from data of the user's own, to a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.utils.data import Dataset

from onebasin.checkpoint import Checkpoint
from onebasin.errors import BadTask
from onebasin.tasks.builtin import builtin
from onebasin.tasks.hub import ROLES, hub_dataset, rows_task
from onebasin.tasks.images import image_files
from onebasin.tasks.mixture import AnyTask, Mixture, mix
from onebasin.tasks.own import PIXELS, TOKENS, batches_task
from onebasin.tasks.pairs import pairs_file
from onebasin.tasks.synthetic import synthetic_task
from onebasin.tasks.task import SYNTHETIC, Measure, Task, head_kind
from onebasin.tasks.text import labelled_file, text_file

FORMS = (
    "images:FILE.npz, images:FOLDER, text:FILE.txt, labelled:FILE.csv, labelled:FILE.jsonl, pairs:FILE.csv, "
    "hub:DATASET[[:CONFIG]:SPLIT], builtin:shapes, builtin:python, synthetic"
)
KINDS = {".npz": "images", ".txt": "text", ".csv": "labelled", ".jsonl": "labelled"}  # by what a file is called

READERS: dict[str, Callable[..., Task]] = {
    "images": image_files, "text": text_file, "labelled": labelled_file, "pairs": pairs_file, "hub": hub_dataset,
    "builtin": builtin,
}  # fmt: skip
OWN = "own"  # what data are called that no name leads to


def as_task(
    data: Any, *models: Checkpoint, samples: int | None = None, length: int | None = None,
    columns: Mapping[str, str] | None = None, loss: Measure | None = None,
    metrics: Mapping[str, Measure] | None = None, weights: Mapping[str, float] | None = None,
) -> AnyTask:  # fmt: skip
    """The task in data of any kind, for the first of the models.  All verbs call this.

    `data` is what `load_task` takes, a `Task`, a `datasets.Dataset` (`columns` says which column is the "text", the
    "image" and the "label"), a `DataLoader`, or a list of batches: dicts as transformers has them, or (inputs, labels).
    Several tasks at once are a mapping of names to any of these; `weights` say how much each counts, 1 if they do not.
    `loss` and `metrics` are functions of (outputs of the model, labels) that give one number for each sample, or their
    mean; a loss takes the place of that which goes with the model's head, and of its metrics.
    """
    _check_functions(loss, metrics or {})
    if isinstance(data, Mapping) and data and not any(isinstance(x, Tensor) for x in data.values()):
        own: dict[str, Any] = {"columns": columns, "loss": loss, "metrics": metrics}
        tasks = {str(name): as_task(one, *models, samples=samples, length=length, **own) for name, one in data.items()}
        return mix(_each_alone(tasks), weights)
    if weights:
        step = "name the tasks: a mapping of names to tasks (--task NAME=TASK)"
        raise BadTask("Weights are for several tasks", found=", ".join(weights), next_step=step)
    if isinstance(data, Mixture):
        return data
    task = _read(data, models, samples, length, columns or {}, own_loss=loss is not None)
    return replace(task, loss=loss or task.loss, metrics={**task.metrics, **(metrics or {})})


def _each_alone(tasks: Mapping[str, AnyTask]) -> dict[str, Task]:
    """The tasks of a mixture, none of which is one."""
    for name, task in tasks.items():
        if isinstance(task, Mixture):
            raise BadTask("A mixture cannot hold another", found=name, next_step="name all tasks in one mapping")
    return {name: task for name, task in tasks.items() if isinstance(task, Task)}


def _read(
    data: Any, models: tuple[Checkpoint, ...], samples: int | None, length: int | None, columns: Mapping[str, str], *,
    own_loss: bool,
) -> Task:  # fmt: skip
    first, rows = models[0], hasattr(data, "column_names")
    if set(columns) - set(ROLES) or (columns and not rows):
        step = f"give columns={{ROLE: NAME}} with a datasets.Dataset; the roles are {', '.join(ROLES)}"
        raise BadTask("columns cannot be used here", found=", ".join(columns), next_step=step)
    if isinstance(data, str | Path):
        return load_task(str(data), *models, samples=samples, length=length)
    if rows and not {TOKENS, PIXELS} & set(data.column_names or ()) and hasattr(data, "__len__"):
        about = {"source": type(data).__name__}
        return rows_task(data, first, f"{OWN}:Dataset", about, samples=samples, length=length, columns=columns)
    if length is not None:
        step = "leave length out, and cut the texts where they are made into tokens"
        raise BadTask("These data have a length of their own", found=f"length {length}", next_step=step)
    if isinstance(data, Task):
        if data.loss is None and not own_loss:
            head_kind(first, data.kind)
        return data if samples is None else data.first(samples)
    if rows and hasattr(data, "with_format"):
        batches = data.with_format("torch").iter(batch_size=100)
        return batches_task(batches, type(data).__name__, first, samples=samples, own_loss=own_loss)
    if why := _why_no_batches(data):
        expected = f"text ({FORMS}), a Task, a datasets.Dataset, a DataLoader, or a list of batches"
        raise BadTask(
            "The task is nothing to read samples from", expected=expected, found=type(data).__name__, next_step=why
        )
    return batches_task(data, type(data).__name__, first, samples=samples, own_loss=own_loss)


def _why_no_batches(data: Any) -> str | None:
    """What to do with an object that does not give batches again and again."""
    if isinstance(data, Dataset):
        return "it gives samples one by one: DataLoader(dataset, batch_size=32)"
    if isinstance(data, Mapping):
        return "one batch is a list of one: [batch]"
    if isinstance(data, Iterator):
        return "it can be read only once: give list(...) of it, or a DataLoader"
    return None if isinstance(data, Iterable) else "see the guide: docs/tasks.md"


def _check_functions(loss: Any, metrics: Mapping[str, Any]) -> None:
    for name, function in [*metrics.items(), *([] if loss is None else [("loss", loss)])]:
        if not callable(function) or (name == "loss" and function is not loss):
            step = "give a function of (outputs, labels); a metric needs a name of its own, which is not loss"
            raise BadTask(f"{name} cannot be measured", expected="a function", found=function, next_step=step)


def load_task(
    text: str, checkpoint: Checkpoint, *others: Checkpoint, samples: int | None = None, length: int | None = None
) -> Task:
    """The task that `text` names, in the form that `checkpoint` reads.  `others` have a say in synthetic inputs only.

    `samples` is how many images, texts or windows (the first ones; windows are evenly spaced); `length` is tokens per
    text or window, at most the model's positions.  By default everything, but not above 20,000 images, 1,000 windows
    and 1,024 tokens.  The forms are `FORMS`; `Task.about` says what was taken.
    """
    if text == SYNTHETIC:
        return synthetic_task([checkpoint, *others], samples=samples, length=length)
    kind, _, rest = text.partition(":")
    if rest and kind in READERS:
        return READERS[kind](rest, checkpoint, samples=samples, length=length)
    if rest and kind == OWN:
        step = "run it from Python with these data, or give the task a file"
        raise BadTask("This recipe was made from Python, with data that a file cannot hold", found=text, next_step=step)
    file = rest or text
    kind = KINDS.get(Path(file).suffix, "")
    step = f"say what it is, like {kind}:{file}" if kind else "give it one of these forms"
    raise BadTask("The task is of no known form", expected=FORMS, found=text, next_step=step)


def on_files(text: str, place: Callable[[str], str]) -> str:
    """The same task with another name for its file or folder; a task that has none stays as it is."""
    kind, _, rest = text.partition(":")
    return f"{kind}:{place(rest)}" if rest and kind in ("images", "text", "labelled", "pairs") else text
