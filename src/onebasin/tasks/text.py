"""Language modelling on windows of a text, and classification of labelled texts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from onebasin.checkpoint import Checkpoint
from onebasin.errors import BadTask
from onebasin.tasks.files import about_file, existing, label_ids, read_text
from onebasin.tasks.task import CLASSIFICATION, LANGUAGE, Task, check_labels, head_kind, too_few
from onebasin.tasks.tokens import encode, encode_padded, reads_tokens, sequence_length

WINDOWS = 1000  # where no number is asked for, at most
LONGEST = 1024  # tokens of a window where no length is asked for, at most

Row = tuple[str, Any]  # text, label


def language_task(
    text: str, checkpoint: Checkpoint, name: str, about: Mapping[str, Any], samples: int | None, length: int | None
) -> Task:
    """N evenly spaced windows of T+1 tokens, window i from i·⌊(n−T−1)/N⌋; each token is told from those before."""
    reads_tokens(checkpoint)
    head_kind(checkpoint, LANGUAGE)
    size = sequence_length(checkpoint, length, LONGEST)
    ids, kind = encode(text, checkpoint)
    room = len(ids) - (size + 1)
    count = min(WINDOWS, max(len(ids) // (size + 1), 1)) if samples is None else samples
    if room < 0 or count < 1 or count > room + 1:
        raise too_few(count, max(room + 1, 0), f"{name} ({len(ids)} tokens, windows of {size + 1})")
    starts = torch.arange(count) * (room // count)
    windows = ids[starts[:, None] + torch.arange(size + 1)]
    full = {**about, "tokens": kind, "samples": count, "length": size}
    return Task(name, LANGUAGE, {"input_ids": windows[:, :-1].contiguous()}, windows[:, 1:].contiguous(), full, ids)


def text_file(text: str, checkpoint: Checkpoint, *, samples: int | None, length: int | None) -> Task:
    """`text:FILE`."""
    path = existing(text)
    return language_task(read_text(path), checkpoint, f"text:{path.name}", about_file(path), samples, length)


def labelled_task(
    rows: Sequence[Row], checkpoint: Checkpoint, name: str, about: Mapping[str, Any], samples: int | None,
    length: int | None,
) -> Task:  # fmt: skip
    """The first N texts with their classes."""
    reads_tokens(checkpoint)
    head_kind(checkpoint, CLASSIFICATION)
    size = sequence_length(checkpoint, length, LONGEST)
    if samples is not None and not 1 <= samples <= len(rows):
        raise too_few(samples, len(rows), name)
    labels = torch.tensor(label_ids([label for _, label in rows], checkpoint, name), dtype=torch.long)
    check_labels(labels, checkpoint, name)
    chosen = rows[:samples]
    inputs = encode_padded([text for text, _ in chosen], checkpoint, size)
    full = {**about, "tokens": "tokenizer", "samples": len(chosen), "length": size}
    return Task(name, CLASSIFICATION, inputs, labels[: len(chosen)], full)


def labelled_file(text: str, checkpoint: Checkpoint, *, samples: int | None, length: int | None) -> Task:
    """`labelled:FILE.csv` or `labelled:FILE.jsonl`."""
    path = existing(text)
    lines = _json_rows if ".jsonl" in path.suffixes else _csv_rows
    return labelled_task(lines(path), checkpoint, f"labelled:{path.name}", about_file(path), samples, length)


def _csv_rows(path: Path) -> list[Row]:
    """With a header: columns `text` and `label`.  Without: class from 1, then columns of text (as AG News has them)."""
    table = [row for row in csv.reader(io.StringIO(read_text(path), newline="")) if row]
    header = [cell.strip().lower() for cell in table[0]] if table else []
    if {"text", "label"} <= set(header):
        ragged = [row for row in table if len(row) != len(header)]
        if ragged:
            raise _columns(path, f"a row of {len(ragged[0])} columns: {ragged[0][0][:40]}")
        text, label = header.index("text"), header.index("label")
        return [(row[text], row[label].strip()) for row in table[1:]]
    if len(header) < 2 or not all(row[0].strip().isdigit() and len(row) == len(header) for row in table):
        raise _columns(path, ", ".join(header) or "an empty file")
    return [(" ".join(row[1:]), int(row[0]) - 1) for row in table]


def _json_rows(path: Path) -> list[Row]:
    rows = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        try:
            entry = json.loads(line) if line.strip() else None
            if entry is not None:
                rows.append((str(entry["text"]), entry["label"]))
        except (ValueError, KeyError, TypeError) as error:
            raise _columns(path, f"line {number}: {line[:60]}") from error
    return rows


def _columns(path: Path, found: str) -> BadTask:
    return BadTask(
        f"{path.name} does not hold labelled texts",
        expected="columns text and label, or no header and class (from 1), title, description",
        found=found,
        next_step="give the columns these names",
    )
