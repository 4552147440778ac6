"""Universes on disk: a folder `universe` with numbers in `universe.json` and an alignment in a folder for each model.
What else belongs to several models: the paces of their average, in one file.

A model is known again by its numbers, wherever its folder lies and whatever it is called.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import save

from onebasin.alignment import Alignment
from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.folder import read_json_object
from onebasin.errors import BadCheckpoint, Incompatible
from onebasin.paths.factor import Paces

FOLDER, SIDECAR, FORMAT = "universe", "universe.json", "onebasin universe 1"
PACES = "paces.safetensors"


def digest(model: Checkpoint) -> str:
    """A hash of all numbers of a model, with their names and shapes."""
    known = hashlib.sha256()
    for name in model:
        tensor = model[name].contiguous()
        known.update(f"{name} {tuple(tensor.shape)}".encode())
        known.update(tensor.numpy().data)
    return known.hexdigest()


def save_universe(
    models: Sequence[Checkpoint], alignments: Sequence[Alignment], facts: Mapping[str, Any], out: str | Path
) -> None:
    """Write every model's alignment, and what the models and the numbers are, into `out`/universe."""
    folder = Path(out) / FOLDER
    for i, alignment in enumerate(alignments):
        alignment.save(folder / str(i))
    document = {"format": FORMAT, "models": [digest(model) for model in models], **facts}
    (folder / SIDECAR).write_text(json.dumps(document, indent=2) + "\n")


def save_paces(paces: Sequence[Paces], folder: Path) -> None:
    """Write the vectors of every model (by number), stored tensor and axis, as MODEL/TENSOR/AXIS."""
    named = {
        f"{m}/{key}/{i}": x for m, own in enumerate(paces) for key, each in own.items() for i, x in enumerate(each)
    }
    (folder / PACES).write_bytes(save(named))


def load_universe(out: str | Path, models: Sequence[Checkpoint]) -> dict[int, Alignment]:
    """The alignments of those of `models` that the universe in `out` knows, by their place."""
    folder = Path(out) / FOLDER
    document = read_json_object(folder / SIDECAR)
    stored = document.get("models")
    if document.get("format") != FORMAT or not isinstance(stored, list):
        raise BadCheckpoint(
            f"{folder / SIDECAR} is not a universe that this version understands",
            expected=FORMAT,
            found=document.get("format"),
            next_step="give an output for three models or more",
        )
    digests = [digest(model) for model in models]
    known = {i: stored.index(own) for i, own in enumerate(digests) if own in stored}
    if len(known) < 2:
        raise Incompatible(
            "The universe knows too few of these models",
            expected=f"2 or more of its {len(stored)} models, with the numbers they had",
            found=f"{len(known)} of {len(models)}",
            next_step="give the models it was made of, and those to be added",
        )
    return {i: Alignment.load(folder / str(place)) for i, place in known.items()}
