"""What lies in the output folder, and whether it can be used again: every part is whole, beside its settings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onebasin.checkpoint import json_text
from onebasin.errors import BadOutput

MODELS = "models"  # in every folder of this verb, from its beginning
MADE = "made.json"  # beside a trained model: the settings it was made with


def check_folder(out: Path) -> None:
    """Refuse a place that holds other things."""
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MODELS).is_dir())):
        step = "give another --out: a new folder, or one that onebasin reproduce wrote"
        raise BadOutput(f"{out} holds other things", expected=f"nothing, or a folder {MODELS}", next_step=step)


def write_json(file: Path, value: Any) -> None:
    """The file holds the old value or the new one, whenever the run ends."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.partial")
    partial.write_text(json_text(value), encoding="utf-8")
    partial.replace(file)


def read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def trained_before(folder: Path, settings: Mapping[str, Any]) -> bool:
    """Whether the model in the folder is the one that these settings make."""
    return bool(read_json(folder / MADE) == _plain(settings))


def discard(folder: Path) -> None:
    """Remove a model that was made here with other settings."""
    if (folder / MADE).is_file():
        shutil.rmtree(folder)


def found_before(file: Path, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """The result in the file, if it was measured with these settings."""
    kept = read_json(file)
    if not isinstance(kept, dict) or kept.get("settings") != _plain(settings):
        return None
    result: dict[str, Any] = kept["result"]
    return result


def _plain(value: Any) -> Any:
    """As it comes back from a file: tuples are lists."""
    return json.loads(json_text(value))
