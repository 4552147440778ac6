"""Which files of an input folder belong into an output folder: those that say how to use the model."""

from __future__ import annotations

import shutil
from pathlib import Path

LARGEST = 100 * 2**20
"""Bytes; the largest tokenizers are a third of this."""

SUFFIXES = (".json", ".txt", ".model", ".jinja", ".tiktoken", ".bpe", ".vocab", ".codes", ".spm")
LEGAL = ("license", "licence", "notice", "copying", "use_policy")
_TEMPLATES = "additional_chat_templates"
_WRITTEN_ANEW = {"config.json", "certificate.json", "alignment.json", "barrier.json"}
_TRAINING = {"trainer_state.json", "training_args.json", "all_results.json", "train_results.json", "eval_results.json"}


def is_carried(name: str) -> bool:
    """Whether a file of this name is carried over.

    Allowed are tokenizer, processor, generation and chat-template files, told by their suffix, and licences.  Denied
    are thereby weights, pickles, code and the model card; and by name what is written anew, shard indices and the
    state of a training run.
    """
    name = name.lower()
    if name in _WRITTEN_ANEW | _TRAINING or name.endswith(".index.json") or name.startswith("."):
        return False
    return name.endswith(SUFFIXES) or (name.startswith(LEGAL) and not name.endswith(".py"))


def carry_files(source: Path, target: Path) -> None:
    """Copy the carried files of one folder to another, the chat templates one level down included."""
    for file in sorted([*source.iterdir(), *(source / _TEMPLATES).glob("*.jinja")]):
        if file.is_file() and is_carried(file.name) and file.stat().st_size <= LARGEST:
            copy = target / file.relative_to(source)
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(file, copy)
