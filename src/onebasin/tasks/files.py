"""What several tasks share: local files, and class numbers from class names, in the model's own order."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from onebasin.checkpoint import Checkpoint
from onebasin.errors import BadTask, one_line
from onebasin.names import as_path

ROOM, RATIO = 2**30, 100  # bytes that may be unpacked from any file; more only where that is not so many times its size
PIECE = 2**24  # characters read at a time
Line = TypeVar("Line")

_OPEN: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
_SPLITS = ("train", "validation", "valid", "val", "dev", "test")


def existing(text: str) -> Path:
    """The file or folder of that name."""
    path = as_path(text)
    if not path.exists():
        raise BadTask(
            f"There is no file {text}", expected="a file or folder", found="nothing", next_step="check the path"
        )
    return path


def read_text(file: Path) -> str:
    """The UTF-8 text of a file, unpacked if it is called .xz, .gz or .bz2."""
    try:
        with _OPEN.get(file.suffix, open)(file, "rt", encoding="utf-8", newline="") as stream:
            pieces: list[str] = []
            while piece := stream.read(PIECE):
                pieces.append(piece)
                check_unpacked(file, sum(map(len, pieces)))
            return "".join(pieces)
    except (OSError, EOFError, lzma.LZMAError, zlib.error, UnicodeDecodeError) as error:
        step = "give a UTF-8 text file, plain or packed as .xz, .gz or .bz2"
        raise BadTask(f"{file.name} cannot be read", expected="UTF-8 text", found=error, next_step=step) from error


def read_lines(file: Path, read: Callable[[Any], Line], refusal: Callable[[Path, str], BadTask]) -> list[Line]:
    """What `read` finds in every line of JSON; one in which it does not find it is refused."""
    rows = []
    for number, line in enumerate(read_text(file).splitlines(), 1):
        try:
            entry = json.loads(line) if line.strip() else None
            if entry is not None:
                json.dumps(entry, ensure_ascii=False).encode()  # half a character is no text
                rows.append(read(entry))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise refusal(file, f"line {number}: {line[:60]}") from error
    return rows


def check_unpacked(file: Path, size: int) -> None:
    """Refuse a file that unpacks to far more than any real data do."""
    if size > ROOM and size > RATIO * file.stat().st_size:
        raise BadTask(
            f"{file.name} unpacks to far more than it is",
            expected=f"at most {RATIO} times its {file.stat().st_size:,} bytes",
            found=f"{size:,} or more",
            next_step="unpack it yourself, look at it, and give the part that is meant",
        )


def about_file(path: Path) -> dict[str, Any]:
    """What the name of a file says: itself, and the split if there is one in it."""
    words = re.split(r"[^a-z]+", path.name.lower())
    split = next((word for word in _SPLITS if word in words), None)
    return {"source": one_line(path.name), **({"split": split} if split else {})}


def class_order(names: Sequence[str], checkpoint: Checkpoint) -> dict[str, int]:
    """name -> class: the model's `label2id` if it knows every name, else by sorted name."""
    known = _known(checkpoint)
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


def _known(checkpoint: Checkpoint) -> dict[str, int]:
    """The model's `label2id`, in small letters."""
    found = checkpoint.config.get("label2id") or {}
    if not isinstance(found, dict) or not all(is_number(str(i)) for i in found.values()):
        step = "take config.json from the original model"
        raise BadTask("label2id in config.json is no list of classes", found=found, next_step=step)
    return {str(name).lower(): int(i) for name, i in found.items()}


def is_number(text: str) -> bool:
    """Whether a text is a whole number, as everyone writes them."""
    return re.fullmatch(r"[+-]?[0-9]{1,18}", text) is not None


def _looks_like_one(text: str) -> bool:
    """0.5 and 1e9 are no class numbers, and no class names either."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def label_ids(labels: Sequence[Any], checkpoint: Checkpoint, source: str) -> list[int]:
    """Class numbers, given as numbers (also written as text) or as names."""
    if all(abs(x) < 10**18 if isinstance(x, int) else isinstance(x, str) and is_number(x) for x in labels):
        return [int(label) for label in labels]
    own = _known(checkpoint)
    odd = [x for x in labels if not isinstance(x, str) or (x.lower() not in own and _looks_like_one(x))]
    if odd:
        step = "give class numbers, or class names, for all samples"
        raise BadTask(
            f"The labels of {source} are of mixed kinds", expected="names or numbers", found=odd[0], next_step=step
        )
    order = class_order(labels, checkpoint)
    return [order[label] for label in labels]
