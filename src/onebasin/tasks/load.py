"""From the words after `--task` to a task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from onebasin.checkpoint import Checkpoint
from onebasin.errors import BadTask
from onebasin.tasks.builtin import builtin
from onebasin.tasks.hub import hub_dataset
from onebasin.tasks.images import image_files
from onebasin.tasks.synthetic import synthetic_task
from onebasin.tasks.task import SYNTHETIC, Task
from onebasin.tasks.text import labelled_file, text_file

FORMS = (
    "images:FILE.npz, images:FOLDER, text:FILE.txt, labelled:FILE.csv, labelled:FILE.jsonl, "
    "hub:DATASET[[:CONFIG]:SPLIT], builtin:shapes, builtin:python, synthetic"
)
KINDS = {".npz": "images", ".txt": "text", ".csv": "labelled", ".jsonl": "labelled"}  # by what a file is called

READERS: dict[str, Callable[..., Task]] = {
    "images": image_files, "text": text_file, "labelled": labelled_file, "hub": hub_dataset, "builtin": builtin,
}  # fmt: skip


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
    file = rest or text
    kind = KINDS.get(Path(file).suffix, "")
    step = f"say what it is, like {kind}:{file}" if kind else "give it one of these forms"
    raise BadTask("The task is of no known form", expected=FORMS, found=text, next_step=step)


def on_files(text: str, place: Callable[[str], str]) -> str:
    """The same task with another name for its file or folder; a task that has none stays as it is."""
    kind, _, rest = text.partition(":")
    return f"{kind}:{place(rest)}" if rest and kind in ("images", "text", "labelled") else text
