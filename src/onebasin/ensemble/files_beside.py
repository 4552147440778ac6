"""What the files beside the weights say of the models' inputs: tokens, and how images are prepared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.folder import read_json_object
from onebasin.ensemble.obstacle import Obstacle
from onebasin.errors import BadCheckpoint

_PREPROCESSING = {  # key -> what it means not to say it
    **dict.fromkeys(("size", "crop_size", "image_mean", "image_std", "do_normalize", "do_rescale", "rescale_factor",
                     "resample")),
    "do_resize": True, "do_center_crop": False, "do_flip_channel_order": False,
}  # fmt: skip
_TOKENIZERS = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "*.tiktoken")


def file_obstacles(a: Checkpoint, b: Checkpoint) -> Iterator[Obstacle]:
    """Differences in tokens and pixels."""
    tokens = [_vocabulary(c.store.folder) for c in (a, b)]
    if tokens[0] and tokens[1] and tokens[0] != tokens[1]:
        moved = next((t for t in sorted(tokens[0]) if tokens[0][t] != tokens[1].get(t)), None)
        first = moved if moved is not None else next(iter(sorted(set(tokens[1]) - set(tokens[0]))))
        step = "give both models one tokenizer first: the rows of their embeddings mean different tokens"
        yield Obstacle(f"token {first!r}", tokens[0].get(first), tokens[1].get(first), step)
    yield from _trained_tokenizers(a.store.folder, b.store.folder)
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
    whole = _json(folder / "processor_config.json")
    inner = whole.get("image_processor")
    return {**_json(folder / "preprocessor_config.json"), **whole, **(inner if isinstance(inner, dict) else {})}


def _vocabulary(folder: Path) -> dict[str, int]:
    """token -> id, from whichever tokenizer files the folder has; tokens that were added later included."""
    tokenizer = _json(folder / "tokenizer.json")
    try:
        vocabulary = (tokenizer.get("model") or {}).get("vocab") or _json(folder / "vocab.json")
        added = {entry["content"]: entry["id"] for entry in tokenizer.get("added_tokens") or []}
        if isinstance(vocabulary, list):
            vocabulary = {entry[0] if isinstance(entry, list) else entry: i for i, entry in enumerate(vocabulary)}
        elif not vocabulary and (folder / "vocab.txt").is_file():
            lines = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
            vocabulary = {token: i for i, token in enumerate(lines)}
        known = _json(folder / "tokenizer_config.json").get("added_tokens_decoder") or {}
        added |= {entry["content"]: int(i) for i, entry in known.items()}
        return {**vocabulary, **added, **_json(folder / "added_tokens.json")}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        step = "take the tokenizer files from the original model"
        raise BadCheckpoint(f"The tokenizer of {folder} cannot be read", found=repr(error), next_step=step) from error


def _json(path: Path) -> dict[str, Any]:
    return read_json_object(path) if path.is_file() else {}
