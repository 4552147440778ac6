"""Output folders that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onebasin.errors import BadOutput

MARGIN = 32 * 2**20
"""Bytes kept free beside the weights, for the configuration, the tokenizer and the report."""


def check_output(out: Path, nbytes: int) -> None:
    """Raise `BadOutput` unless `out` can become a new folder with `nbytes` of weights in it.  Writes nothing."""
    out = out.resolve()
    parent = out.parent
    if out.exists() and not out.is_dir():
        raise BadOutput(f"{out} is a file", expected="a new folder", next_step="give another output folder")
    if out.is_dir() and any(out.iterdir()):
        step = "give another output folder, or remove this one"
        raise BadOutput(f"{out} is not empty", expected="a new or empty folder", next_step=step)
    if not parent.is_dir():
        raise BadOutput(f"{parent} is not a folder", next_step=f"create it first: mkdir -p {parent}")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise BadOutput(f"{parent} cannot be written to", next_step="give an output folder in a place you may write to")
    free, needed = shutil.disk_usage(parent).free, nbytes + MARGIN
    if free < needed:
        raise BadOutput(
            f"there is not enough disk space for {out}",
            expected=f"{needed / 1e9:.2f} GB free",
            found=f"{free / 1e9:.2f} GB",
            next_step="free some space, or give an output folder on another disk",
        )


@contextmanager
def whole_folder(out: Path, nbytes: int = 0) -> Iterator[Path]:
    """Yield a hidden folder beside `out` to write to; it becomes `out` at the end.

    If the block fails or is interrupted the hidden folder is removed and `out` is as before.
    """
    check_output(out, nbytes)
    out = out.resolve()
    partial = out.with_name(f".{out.name}.partial-{secrets.token_hex(4)}")
    try:
        partial.mkdir()
        yield partial
        partial.replace(out)
    except OSError as error:
        step = "nothing was written; check the disk and try again"
        raise BadOutput(f"{out} could not be written", found=error, next_step=step) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
