"""Models as Python has them: folders, Hub ids, open checkpoints, live models; all of them as checkpoints, and back."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union

from onebasin.checkpoint import Checkpoint
from onebasin.errors import OnebasinError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Source: TypeAlias = Union[str, Path, Checkpoint, "PreTrainedModel"]
"""A checkpoint folder, a Hub id, an open checkpoint, or a model of transformers in memory."""


def live(checkpoint: Checkpoint) -> PreTrainedModel:
    """The checkpoint as a model of transformers, in its stored dtype."""
    import transformers

    with tempfile.TemporaryDirectory(prefix="onebasin-") as folder:
        Checkpoint.save(checkpoint, Path(folder) / "model")  # of a merged model the weights alone
        kind = getattr(transformers, checkpoint.spec.architecture)
        model: PreTrainedModel = kind.from_pretrained(Path(folder) / "model", dtype="auto")
    return model


def opened(source: Source) -> Checkpoint:
    """Any source as a checkpoint.  A live model is written to a folder that goes when nobody reads it any more."""
    if isinstance(source, Checkpoint):
        return source
    if isinstance(source, str | Path):
        return Checkpoint.open(source)
    if not hasattr(source, "save_pretrained"):
        expected = "a folder, a Hub id, a Checkpoint or a model of transformers"
        step = "save the model with save_pretrained and give its folder"
        raise OnebasinError("This is no model", expected=expected, found=type(source).__name__, next_step=step)
    root = Path(tempfile.mkdtemp(prefix="onebasin-"))
    try:
        source.save_pretrained(root / type(source).__name__)
        checkpoint = Checkpoint.open(root / type(source).__name__)
    except BaseException:
        shutil.rmtree(root)
        raise
    weakref.finalize(checkpoint.store, shutil.rmtree, root)
    return checkpoint
