"""Write a checkpoint folder as transformers does, a few tensors in memory at a time, rounding once."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onebasin.checkpoint.dtypes import nbytes
from onebasin.checkpoint.folder import INDEX
from onebasin.checkpoint.output import carry_files, whole_folder
from onebasin.checkpoint.shard import in_file_order, write_shard
from onebasin.checkpoint.store import Progress
from onebasin.errors import BadOutput
from onebasin.options import BYTES, bytes_of

if TYPE_CHECKING:
    import torch
    from huggingface_hub import StateDictSplit
    from torch import Tensor

FORMAT: Mapping[str, str] = {"format": "pt"}
"""The metadata without which transformers refuses a safetensors file."""


class Planned(NamedTuple):
    """A tensor to write: known by its header before any work; `make` is called once, when its turn comes.

    It returns the tensor; or flat parts of it that follow one another, each made when it is asked for.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    make: Callable[[], Tensor | Iterator[Tensor]]

    @property
    def nbytes(self) -> int:
        """Bytes of data in the file."""
        return nbytes(self.dtype, self.shape)


def write_folder(
    out: Path,
    tensors: Sequence[Planned],
    *,
    config: Mapping[str, Any],
    carry_from: Path | None,
    licences_from: Path | None = None,
    extra_files: Mapping[str, str | bytes] | None = None,
    max_shard_size: int | str = "5GB",
    metadata: Mapping[str, str] = FORMAT,
    progress: Progress | None = None,
    overwrite: bool = False,
    device: torch.device | str = "cpu",
) -> None:
    """Write the folder `out`: weights, `config.json`, the files carried over from an input, `extra_files` by name.

    Licences are those of the same input, or of `licences_from`.
    `auto_map` names code of the input, which stays there: it is left out of `config.json`.
    What `make` returns may be of any floating type; it is rounded to the planned type here and nowhere else.  It is
    called in several threads, of which there are as many as go well with tensors made on `device`.
    Raises `BadOutput` before any work if `out` cannot be written, and later if a tensor is not as planned or not finite
    after rounding.  On any failure, and on Ctrl-C, nothing is left behind.
    """
    plan = {tensor.name: tensor for tensor in tensors}
    if len(plan) != len(tensors):
        raise ValueError("two planned tensors have the same name")
    total, done = sum(tensor.nbytes for tensor in tensors), 0

    with whole_folder(out, total, overwrite=overwrite) as partial:
        split = shards(tensors, max_shard_size)
        _write_json(partial / "config.json", {key: x for key, x in config.items() if key != "auto_map"})
        if carry_from:
            carry_files(carry_from, partial, licences_from)
        for name, content in (extra_files or {}).items():
            (partial / name).write_bytes(content.encode() if isinstance(content, str) else content)
        for file, names in split.filename_to_tensors.items():
            ordered = in_file_order([plan[name] for name in names])
            for nbytes in write_shard(partial / file, ordered, metadata, device):
                done += nbytes
                if progress:
                    progress(done, total)
        if split.is_sharded:
            counts = {"total_parameters": sum(math.prod(tensor.shape) for tensor in tensors)}
            index = {"metadata": counts | split.metadata, "weight_map": split.tensor_to_filename}
            _write_json(partial / INDEX, index)


def shards(tensors: Sequence[Planned], max_shard_size: int | str) -> StateDictSplit:
    """Which tensor goes into which file."""
    from huggingface_hub import split_state_dict_into_shards_factory
    from huggingface_hub.constants import SAFETENSORS_WEIGHTS_FILE_PATTERN

    size = bytes_of(str(max_shard_size))
    if size is None:
        step = "write it like 5GB or 200MB"
        raise BadOutput("this is no shard size", expected=BYTES, found=max_shard_size, next_step=step)
    return split_state_dict_into_shards_factory(
        {tensor.name: tensor for tensor in tensors},
        get_storage_size=lambda tensor: tensor.nbytes,
        filename_pattern=SAFETENSORS_WEIGHTS_FILE_PATTERN,
        max_shard_size=size,
    )


def json_text(value: Any) -> str:
    """A JSON document that every reader takes: numbers that are not finite, for which JSON has no word, are null."""
    return json.dumps(_finite(value), indent=2, allow_nan=False, default=str) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write_json(file: Path, value: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
