"""Write a checkpoint folder as transformers does, two tensors in memory at a time, rounding once."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onebasin.checkpoint.dtypes import is_finite, nbytes, torch_dtype
from onebasin.checkpoint.folder import INDEX
from onebasin.checkpoint.output import carry_files, whole_folder
from onebasin.checkpoint.shard import in_file_order, write_shard
from onebasin.checkpoint.store import Progress
from onebasin.errors import BadOutput
from onebasin.options import BYTES, bytes_of

if TYPE_CHECKING:
    from huggingface_hub import StateDictSplit
    from torch import Tensor

FORMAT: Mapping[str, str] = {"format": "pt"}
"""The metadata without which transformers refuses a safetensors file."""


class Planned(NamedTuple):
    """A tensor to write: known by its header before any work; `make` is called once, when its turn comes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    make: Callable[[], Tensor]

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
) -> None:
    """Write the folder `out`: weights, `config.json`, the files carried over from an input, `extra_files` by name.

    Licences are those of the same input, or of `licences_from`.
    `auto_map` names code of the input, which stays there: it is left out of `config.json`.
    What `make` returns may be of any floating type, on any device; it is rounded to the planned type here and nowhere
    else.  Raises `BadOutput` before any work if `out` cannot be written, and later if a tensor is not as planned or
    not finite after rounding.  On any failure, and on Ctrl-C, nothing is left behind.
    """
    plan = {tensor.name: tensor for tensor in tensors}
    if len(plan) != len(tensors):
        raise ValueError("two planned tensors have the same name")
    total, done = sum(tensor.nbytes for tensor in tensors), 0

    def made(ordered: Sequence[Planned]) -> Iterator[Tensor]:
        nonlocal done
        for tensor in ordered:
            yield _rounded(tensor)
            done += tensor.nbytes
            if progress:
                progress(done, total)

    with whole_folder(out, total, overwrite=overwrite) as partial:
        split = shards(tensors, max_shard_size)
        _write_json(partial / "config.json", {key: x for key, x in config.items() if key != "auto_map"})
        if carry_from:
            carry_files(carry_from, partial, licences_from)
        for name, content in (extra_files or {}).items():
            (partial / name).write_bytes(content.encode() if isinstance(content, str) else content)
        for file, names in split.filename_to_tensors.items():
            ordered = in_file_order([plan[name] for name in names])
            write_shard(partial / file, ordered, made(ordered), metadata)
        if split.is_sharded:
            counts = {"total_parameters": sum(math.prod(tensor.shape) for tensor in tensors)}
            index = {"metadata": counts | split.metadata, "weight_map": split.tensor_to_filename}
            _write_json(partial / INDEX, index)


def shards(tensors: Sequence[Planned], max_shard_size: int | str) -> StateDictSplit:
    """Which tensor goes into which file."""
    import torch
    from huggingface_hub import split_torch_state_dict_into_shards

    size = bytes_of(str(max_shard_size))
    if size is None:
        step = "write it like 5GB or 200MB"
        raise BadOutput("this is no shard size", expected=BYTES, found=max_shard_size, next_step=step)
    meta = {t.name: torch.empty(t.shape, dtype=torch_dtype(t.dtype), device="meta") for t in tensors}
    return split_torch_state_dict_into_shards(meta, max_shard_size=size)


def _rounded(planned: Planned) -> Tensor:
    """The made tensor on the CPU, in the planned type, contiguous."""
    import torch

    made, dtype = planned.make().detach(), torch_dtype(planned.dtype)
    if made.shape != planned.shape or made.is_floating_point() != dtype.is_floating_point:
        raise BadOutput(
            "a tensor is not as planned",
            tensor=planned.name,
            expected=f"{planned.dtype} {planned.shape}",
            found=f"{made.dtype} {tuple(made.shape)}",
            next_step="please report this: the plan of the output is wrong",
        )
    stored = made.to(dtype)
    if is_finite(stored):
        return stored.cpu().contiguous()
    if is_finite(made):
        raise BadOutput(
            f"a tensor does not fit into {planned.dtype}",
            tensor=planned.name,
            expected=f"at most {torch.finfo(dtype).max:.3g}",
            found=f"{made.abs().max().item():.3g}",
            next_step="write in BF16 or F32",
        )
    step = "check that the inputs are finite, then please report this"
    raise BadOutput("a computed tensor is not finite", tensor=planned.name, expected="finite numbers", next_step=step)


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
