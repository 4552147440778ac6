"""The state of a run on disk: one safetensors file, replaced whole, with the numbers that are no tensors in its header.

It holds latents, optimiser, random states, the best latents so far, the counter of the early stop, the history and the
step, from which the place in the data follows.  It holds no weights of the models.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from onebasin.errors import BadCheckpoint, BadOutput

FILE, FORMAT = "learning.safetensors", "onebasin learning 6"


def save_state(folder: Path, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
    """Replace the state in `folder`; if that fails the last one stays."""
    file, fresh = folder / FILE, folder / f".{FILE}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stored = {name: x.detach().cpu().contiguous().clone() for name, x in tensors.items()}
        save_file(stored, fresh, {"format": FORMAT, "numbers": json.dumps(numbers)})
        fresh.replace(file)
    except (OSError, SafetensorError) as error:
        fresh.unlink(missing_ok=True)
        kept = f"the state before is kept in {file}" if file.is_file() else "no state was written before"
        step = "free some space or give another folder, then run the same command again to go on"
        raise BadOutput(f"The state of learning cannot be written; {kept}", found=error, next_step=step) from error


def load_state(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """(tensors, numbers) of the state in `folder`, or None where there is none."""
    file = folder / FILE
    if not file.is_file():
        return None
    try:
        with safe_open(file, "pt") as stored:
            about = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
            numbers = json.loads(about.get("numbers", "null"))
    except (OSError, SafetensorError, ValueError) as error:
        raise _unreadable(file, error) from error
    if about.get("format") != FORMAT or not isinstance(numbers, dict):
        raise _unreadable(file, about.get("format"))
    return tensors, numbers


def _unreadable(file: Path, found: object) -> BadCheckpoint:
    return BadCheckpoint(
        f"{file} is not the state of a run",
        expected=FORMAT,
        found=found,
        next_step="remove it to begin again, or give another folder",
    )


def check_same(asked: dict[str, Any], stored: dict[str, Any], folder: Path) -> None:
    """A run goes on only as it began."""
    odd = [name for name in asked if asked[name] != stored.get(name)]
    if odd:
        raise BadCheckpoint(
            f"The run kept in {folder} was begun with another value of {odd[0]!r}",
            expected=stored.get(odd[0]),
            found=asked[odd[0]],
            next_step="give the same options to go on with it, or another folder to begin a new one",
        )
