"""Merged: the average of aligned models, which knows how it came about and writes that beside its weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from onebasin.checkpoint import Checkpoint

Writer = Callable[..., Mapping[str, Any]]
"""Writes a folder, in a dtype or as stored, and says what is in its certificate."""


@dataclass(frozen=True, repr=False)
class Merged(Checkpoint):
    """A checkpoint like any other; but `save` writes what `onebasin merge` writes."""

    writer: Writer = field(kw_only=True)

    @classmethod
    def of(cls, average: Checkpoint, writer: Writer) -> Merged:
        """The average with its `writer`."""
        return cls(**_parts(average), writer=writer)

    def derive(self, *args: Any, **options: Any) -> Checkpoint:
        """A rewrite of it is a plain checkpoint."""
        return Checkpoint(**_parts(self)).derive(*args, **options)

    def save(  # type: ignore[override]  # what lies beside the weights is made here
        self, out: str | Path, *, dtype: str | None = None, max_shard_size: str = "5GB", overwrite: bool = False
    ) -> None:
        """Write the checkpoint with its maps, certificate, recipe, model card and report, whole or not at all.

        With labels in the task, the file is measured and the certificate says how good it is; a warning says where it
        is not recommended.
        """
        found = self.writer(Path(out), dtype, max_shard_size=max_shard_size, overwrite=overwrite)
        if found["verdict"].endswith("not recommended"):
            warnings.warn(f"the merged model is {found['verdict']}", stacklevel=2)


def _parts(checkpoint: Checkpoint) -> dict[str, Any]:
    return {own.name: getattr(checkpoint, own.name) for own in fields(Checkpoint)}
