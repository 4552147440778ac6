"""What the files beside the weights say of the models' inputs: tokens, and how images are prepared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onebasin.checkpoint import Checkpoint
from onebasin.ensemble.obstacle import Obstacle
from onebasin.labels.names import json_object

_PREPROCESSING = {  # key -> what it means not to say it
    **dict.fromkeys(("size", "crop_size", "image_mean", "image_std", "do_normalize", "do_rescale", "rescale_factor",
                     "resample")),
    "do_resize": True, "do_center_crop": False, "do_flip_channel_order": False,
}  # fmt: skip
_TOKENIZERS = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "*.tiktoken")


def file_obstacles(a: Checkpoint, b: Checkpoint) -> Iterator[Obstacle]:
    """Differences in files of tokens that are not read here, and in pixels."""
    yield from _trained_tokenizers(a.folder, b.folder)
    images = [_preprocessing(c.store.folder) for c in (a, b)]
    for key, default in _PREPROCESSING.items():
        said = [settings.get(key, default) for settings in images]
        if images[0] and images[1] and said[0] != said[1]:
            step = "the models expect different pixels: retrain, or give both one preprocessing"
            yield Obstacle(f"preprocessing: {key}", said[0], said[1], step)


def _trained_tokenizers(a: Path, b: Path) -> Iterator[Obstacle]:
    """Files of tokens that are not read here.  Where both models have a tokenizer.json, that is what counts."""
    read = all((folder / "tokenizer.json").is_file() for folder in (a, b))
    for first in sorted(file for pattern in _TOKENIZERS for file in a.glob(pattern)):
        second = b / first.name
        if not second.is_file() or (one := _digest(first)) == (two := _digest(second)):
            continue
        step = "give both models one tokenizer first: the rows of their embeddings may mean different tokens"
        if read:
            step = "nothing to do: both have a tokenizer.json, which counts"
        yield Obstacle(f"tokenizer file {first.name}", one, two, step, blocks=not read)


def _digest(file: Path) -> str:
    return f"sha256 {hashlib.sha256(file.read_bytes()).hexdigest()[:12]}…"


def _preprocessing(folder: Path) -> dict[str, Any]:
    """How images are prepared; newer folders say it in processor_config.json, under the image processor."""
    whole = json_object(folder / "processor_config.json")
    inner = whole.get("image_processor")
    return {**json_object(folder / "preprocessor_config.json"), **whole, **(inner if isinstance(inner, dict) else {})}
