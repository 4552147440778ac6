"""Small readers of local files that several tasks share."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
