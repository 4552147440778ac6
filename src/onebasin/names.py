"""Names of files and folders, as somebody typed them: refused before the system is asked for what it cannot look up."""

from __future__ import annotations

import os
from pathlib import Path

from onebasin.errors import BadRecipe

LONGEST, LONGEST_PART = 4095, 255  # bytes of a path, and of a name in it
BESIDE = 55  # bytes left for the names of what lies beside an output while it is made


def as_path(text: str | Path) -> Path:
    """The path of that name, `~` written out; one that no file system can have is refused."""
    try:
        name = os.fsencode(text)
        path = Path(text).expanduser()
    except (UnicodeEncodeError, RuntimeError) as error:  # lone surrogates; ~ of nobody
        raise _no_name(text, error) from error
    if b"\0" in name:
        raise _no_name(text, "a zero byte")
    if len(name) > LONGEST or any(len(os.fsencode(part)) > LONGEST_PART for part in path.parts):
        raise _no_name(text, f"{len(name):,} bytes")
    return path


def as_output(text: str | Path) -> Path:
    """The path of an output, with room for longer names beside it."""
    path = as_path(text)
    if len(os.fsencode(path.name)) > LONGEST_PART - BESIDE:
        raise _no_name(text, f"{len(os.fsencode(path.name))} bytes, and {BESIDE} are needed beside it")
    return path


def _no_name(text: str | Path, found: object) -> BadRecipe:
    expected = f"names of at most {LONGEST_PART} bytes, {LONGEST:,} in all"
    what = f"{str(text)[:80]!r} cannot be the name of a file or folder"
    return BadRecipe(what, expected=expected, found=found, next_step="check the path")
