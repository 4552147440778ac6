"""Pairs of texts, a source and what should become of it: for models that read the one and write the other."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from onebasin.checkpoint import Checkpoint, transformers_config
from onebasin.errors import BadTask, one_line
from onebasin.tasks.files import about_file, existing, read_lines, read_text
from onebasin.tasks.task import IGNORED, PAIRED, Task, head_kind, too_few
from onebasin.tasks.tokens import encode_padded, reads_tokens, sequence_length

LONGEST = 128  # tokens of a source and of a target where no length is asked for, at most
COLUMNS = ("source", "target")


def pairs_file(text: str, checkpoint: Checkpoint, *, samples: int | None, length: int | None) -> Task:
    """`pairs:FILE.jsonl` or `pairs:FILE.csv`, with columns source and target."""
    path = existing(text)
    rows = read_lines(path, _pair, _columns) if ".jsonl" in path.suffixes else _csv_rows(path)
    return paired_task(rows, checkpoint, f"pairs:{one_line(path.name)}", about_file(path), samples, length)


def paired_task(
    rows: Sequence[tuple[str, str]], checkpoint: Checkpoint, name: str, about: Mapping[str, Any], samples: int | None,
    length: int | None,
) -> Task:  # fmt: skip
    """The first N pairs.  The decoder reads the target behind its token of beginning, and tells the next token."""
    reads_tokens(checkpoint)
    kind = head_kind(checkpoint, PAIRED)
    size = sequence_length(checkpoint, length, LONGEST)
    if not 1 <= (len(rows) if samples is None else samples) <= len(rows):
        raise too_few(samples or 1, len(rows), name)
    sources, targets = zip(*rows[:samples], strict=True)
    source, target = (encode_padded(texts, checkpoint, size) for texts in (sources, targets))
    labels = target["input_ids"].masked_fill(target["attention_mask"] == 0, IGNORED)
    full = {**about, "tokens": "tokenizer", "samples": len(sources), "length": size}
    return Task(name, kind, {**_kept(source), **decoder_inputs(labels, checkpoint)}, labels, full)


def _kept(encoded: Any) -> dict[str, Tensor]:
    return {name: encoded[name] for name in ("input_ids", "attention_mask")}


def decoder_inputs(labels: Tensor, checkpoint: Checkpoint) -> dict[str, Tensor]:
    """What the decoder reads to tell these labels: its token of beginning, and every label but the last."""
    config = transformers_config(checkpoint.config)
    first = getattr(config, "decoder_start_token_id", None)
    if first is None:
        step = "set decoder_start_token_id in config.json, as the model was trained"
        raise BadTask("The model does not say what its decoder begins with", found="none", next_step=step)
    begun = torch.cat([torch.full_like(labels[:, :1], first), labels[:, :-1]], 1)
    there = begun != IGNORED
    padding = config.pad_token_id if config.pad_token_id is not None else first
    return {"decoder_input_ids": begun.masked_fill(~there, padding), "decoder_attention_mask": there.long()}


def _csv_rows(path: Path) -> list[tuple[str, str]]:
    content = read_text(path)
    csv.field_size_limit(max(csv.field_size_limit(), len(content)))
    try:
        rows = list(csv.DictReader(io.StringIO(content, newline=""), strict=True))
    except csv.Error as error:
        raise _columns(path, str(error)) from error
    odd = next((row for row in rows if any(not isinstance(row.get(name), str) for name in COLUMNS)), None)
    if odd is not None:
        raise _columns(path, ", ".join(map(str, odd)))
    return [(row["source"], row["target"]) for row in rows]


def _pair(entry: Any) -> tuple[str, str]:
    return str(entry["source"]), str(entry["target"])


def _columns(path: Path, found: str) -> BadTask:
    step = 'give the columns these names, or lines like {"source": "...", "target": "..."}'
    return BadTask(
        f"{path.name} does not hold pairs of texts", expected=", ".join(COLUMNS), found=found, next_step=step
    )
