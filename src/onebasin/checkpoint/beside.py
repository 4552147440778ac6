"""What lies beside the weights of a model that is written: whose tokenizer, chat template and generation settings.

Models that are aligned or merged speak with one voice, that of the first: its files go with all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from onebasin.checkpoint.output import belongs
from onebasin.checkpoint.store import Store

LENGTHS = ("model_max_length", "max_seq_length", "max_length")  # how long a text may be, as tokenizers and others say


@dataclass(frozen=True)
class Beside:
    """Files in the folder of `store`; `longest` is how long texts may be, where that is less than these files say."""

    store: Store
    longest: int | None = None

    @property
    def folder(self) -> Path:
        """Where they are."""
        return self.store.folder

    def shortened(self) -> Iterator[tuple[str, str]]:
        """(name, text) of the files that would let texts be too long, changed."""
        for file in sorted(self.folder.glob("*_config.json")) if self.longest is not None else ():
            try:
                settings = json.loads(file.read_text(encoding="utf-8"))
                longer = {key: self.longest for key in LENGTHS if settings.get(key, 0) > self.longest}
            except (OSError, ValueError, AttributeError, TypeError):  # no such settings
                continue
            if longer and belongs(file, self.folder):
                settings.pop("auto_map", None)  # names code, which is not carried over
                yield file.name, json.dumps({**settings, **longer}, indent=2, ensure_ascii=False) + "\n"
