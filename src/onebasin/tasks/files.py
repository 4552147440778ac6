"""What several tasks share: local files, and class numbers from class names, in the model's own order."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from onebasin.checkpoint import Checkpoint
from onebasin.errors import BadTask

_OPEN: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
_SPLITS = ("train", "validation", "valid", "val", "dev", "test")


def existing(text: str) -> Path:
    """The file or folder of that name."""
    path = Path(text).expanduser()
    if not path.exists():
        raise BadTask(
            f"There is no file {text}", expected="a file or folder", found="nothing", next_step="check the path"
        )
    return path


def read_text(file: Path) -> str:
    """The UTF-8 text of a file, unpacked if it is called .xz, .gz or .bz2."""
    try:
        with _OPEN.get(file.suffix, open)(file, "rt", encoding="utf-8", newline="") as stream:
            return str(stream.read())
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        step = "give a UTF-8 text file, plain or packed as .xz, .gz or .bz2"
        raise BadTask(f"{file.name} cannot be read", expected="UTF-8 text", found=error, next_step=step) from error


def about_file(path: Path) -> dict[str, Any]:
    """What the name of a file says: itself, and the split if there is one in it."""
    words = re.split(r"[^a-z]+", path.name.lower())
    split = next((word for word in _SPLITS if word in words), None)
    return {"source": path.name, **({"split": split} if split else {})}


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
