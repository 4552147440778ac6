"""From text to token ids: the model's own tokenizer, or bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from onebasin.checkpoint import Checkpoint
from onebasin.errors import BadTask
from onebasin.spec import Tokens
from onebasin.tasks.task import IGNORED, check_one_kind

_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "tokenizer.model", "spiece.model")


def reads_tokens(checkpoint: Checkpoint) -> Tokens:
    """What the model reads, which must be tokens."""
    check_one_kind(checkpoint)
    if not isinstance(checkpoint.spec.reads, Tokens):
        raise BadTask(
            f"{checkpoint.spec.architecture} does not read text",
            expected="a model that reads tokens",
            found=type(checkpoint.spec.reads).__name__.lower(),
            next_step="give it an image task: images:FILE.npz, images:FOLDER or builtin:shapes",
        )
    return checkpoint.spec.reads


def tokenizer_of(checkpoint: Checkpoint) -> Any | None:
    """The tokenizer in the model's folder, if there is one; no code of the folder is run."""
    folder = checkpoint.folder
    if not any((folder / name).is_file() for name in _FILES):
        return None
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # tokenizers raises nothing more special
        step = "copy the tokenizer files of the original model into the folder, or remove them to read bytes"
        raise BadTask(f"The tokenizer of {folder.name} cannot be read", found=error, next_step=step) from error


def encode(text: str, checkpoint: Checkpoint) -> tuple[Tensor, str]:
    """One long row of token ids, and what a token is: "tokenizer" or "bytes"."""
    vocabulary, tokenizer = reads_tokens(checkpoint).vocabulary, tokenizer_of(checkpoint)
    if tokenizer is not None:
        ids = torch.tensor(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"], dtype=torch.long)
        check_ids(ids, vocabulary)
        return ids, "tokenizer"
    if vocabulary < 256:
        raise BadTask(
            "The model has no tokenizer, and too small a vocabulary for bytes",
            expected="tokenizer files in the folder, or 256 tokens",
            found=f"{vocabulary} tokens",
            next_step="copy the tokenizer files of the original model into the folder",
        )
    return torch.from_numpy(np.frombuffer(text.encode(), np.uint8).astype(np.int64)), "bytes"


def encode_padded(texts: Sequence[str] | Sequence[Sequence[str]], checkpoint: Checkpoint, length: int) -> Any:
    """One row per text, cut or padded to `length`, with all that the model's tokenizer gives.

    A text may be a list of words; then `word_ids` of the result tells which of them a token belongs to.
    """
    tokenizer = tokenizer_of(checkpoint)
    if tokenizer is None:
        step = "copy the tokenizer files of the original model into the folder"
        raise BadTask("The model's folder has no tokenizer", expected="tokenizer.json", found="none", next_step=step)
    padding = checkpoint.config.get("pad_token_id")
    if tokenizer.pad_token_id is None or padding != tokenizer.pad_token_id:
        raise BadTask(
            "Model and tokenizer do not name the same padding token, so the model would read the padding",
            expected=f"pad_token_id {padding} (config.json)",
            found=tokenizer.pad_token_id,
            next_step="set pad_token_id in config.json and pad_token in tokenizer_config.json",
        )
    encoded = tokenizer(
        list(texts), padding="max_length", truncation=True, max_length=length, return_tensors="pt", verbose=False,
        is_split_into_words=not isinstance(texts[0], str),
    )  # fmt: skip
    check_ids(encoded["input_ids"], reads_tokens(checkpoint).vocabulary)
    return encoded


def put_around(ids: Tensor, tokenizer: Any | None) -> Tensor:
    """The rows with the tokens that the tokenizer puts around a text, in place of the first and the last."""
    for place, name in ((0, "cls_token_id"), (-1, "sep_token_id")):
        around = getattr(tokenizer, name, None)
        if around is not None:
            ids[:, place] = around
    return ids


def mask(ids: Tensor, checkpoint: Checkpoint, share: float = 0.15, seed: int = 0) -> tuple[Tensor, Tensor]:
    """(the rows with some tokens hidden, what was there): at least one of each row, drawn by the seed.

    Tokens with a meaning of their own (padding, beginning, end) are not hidden.  Where nothing is hidden the label is
    IGNORED.
    """
    tokenizer = tokenizer_of(checkpoint)
    hidden = getattr(tokenizer, "mask_token_id", None)
    if tokenizer is None or hidden is None:
        raise BadTask(
            "The model's folder has no tokenizer with a token that hides another",
            expected="mask_token in tokenizer_config.json",
            found="none",
            next_step="copy the tokenizer files of the original model into the folder, or use synthetic inputs",
        )
    special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
    drawn = torch.rand(ids.shape, generator=torch.Generator().manual_seed(seed)) + special
    return hide(ids, hidden, drawn, share)


def hide(ids: Tensor, hidden: int, drawn: Tensor, share: float = 0.15) -> tuple[Tensor, Tensor]:
    """Hide what drew less than the share, and the lowest of every row; who drew 1 or more is spared."""
    chosen = (drawn < share) | (drawn == drawn.amin(-1, keepdim=True)) & (drawn < 1)
    return ids.masked_fill(chosen, hidden), ids.masked_fill(~chosen, IGNORED)


def check_ids(ids: Tensor, vocabulary: int) -> None:
    """The tokenizer speaks the model's vocabulary."""
    if ids.numel() and int(ids.max()) >= vocabulary:
        step = "give the folder the tokenizer that the model was trained with"
        raise BadTask(
            "The tokenizer gives ids that the model does not have",
            expected=f"ids below {vocabulary}",
            found=int(ids.max()),
            next_step=step,
        )


def sequence_length(checkpoint: Checkpoint, length: int | None, default: int | None = None) -> int:
    """The length asked for, which the model's positions must allow; else `default` or all positions."""
    positions = reads_tokens(checkpoint).positions
    if length is not None and not 1 <= length <= positions:
        step = f"use --length {positions} or less"
        raise BadTask(
            "The model has no such sequence length", expected=f"1 to {positions}", found=length, next_step=step
        )
    return length or min(default or positions, positions)
