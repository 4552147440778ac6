"""Windows of a text, to be told on or to fill gaps in, and texts with labels: one for each, or one for each word."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from onebasin.checkpoint import Checkpoint
from onebasin.errors import BadTask, one_line
from onebasin.tasks.files import about_file, existing, is_number, label_ids, read_lines, read_text
from onebasin.tasks.task import (
    CLASSIFICATION,
    EMBEDDINGS,
    IGNORED,
    LANGUAGE,
    MASKED,
    TAGGING,
    Task,
    check_labels,
    head_kind,
    too_few,
)
from onebasin.tasks.tokens import encode, encode_padded, mask, put_around, reads_tokens, sequence_length, tokenizer_of

WINDOWS = 1000  # where no number is asked for, at most
LONGEST = 1024  # tokens of a window where no length is asked for, at most

Row = tuple[Any, Any]  # a text and its label, or lists of words and of their labels


def language_task(
    text: str, checkpoint: Checkpoint, name: str, about: Mapping[str, Any], samples: int | None, length: int | None
) -> Task:
    """N evenly spaced windows of T tokens, window i from i·⌊(n−T−1)/N⌋.

    Each token is told from those before, or hidden ones from those around; a model without a head has no labels.
    """
    reads_tokens(checkpoint)
    kind = head_kind(checkpoint, LANGUAGE, MASKED, EMBEDDINGS)
    size = sequence_length(checkpoint, length, LONGEST)
    ids, tokens = encode(text, checkpoint)
    room = len(ids) - (size + 1)
    count = min(WINDOWS, max(len(ids) // (size + 1), 1)) if samples is None else samples
    if room < 0 or count < 1 or count > room + 1:
        raise too_few(count, max(room + 1, 0), f"{name} ({len(ids)} tokens, windows of {size + 1})")
    starts = torch.arange(count) * (room // count)
    windows = ids[starts[:, None] + torch.arange(size + 1)]
    full = {**about, "tokens": tokens, "samples": count, "length": size}
    if kind == LANGUAGE:
        return Task(name, kind, {"input_ids": windows[:, :-1].contiguous()}, windows[:, 1:].contiguous(), full, ids)
    rows = put_around(windows[:, :-1].clone(), tokenizer_of(checkpoint))
    if kind == EMBEDDINGS:
        return Task(name, kind, {"input_ids": rows}, torch.full((count,), IGNORED), full)
    shown, labels = mask(rows, checkpoint)
    return Task(name, kind, {"input_ids": shown}, labels, full)


def text_file(text: str, checkpoint: Checkpoint, *, samples: int | None, length: int | None) -> Task:
    """`text:FILE`."""
    path = existing(text)
    return language_task(read_text(path), checkpoint, f"text:{one_line(path.name)}", about_file(path), samples, length)


def labelled_task(
    rows: Sequence[Row], checkpoint: Checkpoint, name: str, about: Mapping[str, Any], samples: int | None,
    length: int | None,
) -> Task:  # fmt: skip
    """The first N texts with their classes, or with those of their words; a model without a head has no labels."""
    reads_tokens(checkpoint)
    kind = head_kind(checkpoint, CLASSIFICATION, TAGGING, EMBEDDINGS)
    size = sequence_length(checkpoint, length, LONGEST)
    if samples is not None and not 1 <= samples <= len(rows):
        raise too_few(samples, len(rows), name)
    chosen = rows[:samples]
    full = {**about, "tokens": "tokenizer", "samples": len(chosen), "length": size}
    if kind == TAGGING:
        return Task(name, kind, *_tagged(chosen, checkpoint, name, size), full)
    labels = torch.full((len(chosen),), IGNORED)
    if kind == CLASSIFICATION:
        labels = torch.tensor(label_ids([label for _, label in rows], checkpoint, name), dtype=torch.long)
        check_labels(labels, checkpoint, name)
    inputs = encode_padded([text for text, _ in chosen], checkpoint, size)
    return Task(name, kind, dict(inputs), labels[: len(chosen)], full)


def _tagged(rows: Sequence[Row], checkpoint: Checkpoint, name: str, length: int) -> tuple[dict[str, Tensor], Tensor]:
    """Words and their classes; the first token of a word bears its label, and only that is counted."""
    for words, tags in rows:
        if not isinstance(words, list) or not isinstance(tags, list) or len(words) != len(tags):
            step = 'give lists of one length: {"tokens": ["a", "word"], "labels": ["O", "O"]}'
            found = f"{str(words)[:40]} with {str(tags)[:40]}"
            raise BadTask(f"{name} does not hold a label for each word", expected="lists", found=found, next_step=step)
    flat = torch.tensor(label_ids([tag for _, tags in rows for tag in tags], checkpoint, name), dtype=torch.long)
    check_labels(flat, checkpoint, name)
    each = flat.split([len(tags) for _, tags in rows])
    encoded = encode_padded([words for words, _ in rows], checkpoint, length)
    if not encoded.is_fast:
        step = "save the tokenizer as tokenizer.json (AutoTokenizer.from_pretrained(...).save_pretrained(FOLDER))"
        raise BadTask("The tokenizer does not tell which word a token belongs to", found="a slow one", next_step=step)
    labels = torch.full_like(encoded["input_ids"], IGNORED)
    for i, tags in enumerate(each):
        words = encoded.word_ids(i)
        for place, word in enumerate(words):
            if word is not None and word not in words[:place]:
                labels[i, place] = tags[word]
    return dict(encoded), labels


def labelled_file(text: str, checkpoint: Checkpoint, *, samples: int | None, length: int | None) -> Task:
    """`labelled:FILE.csv` or `labelled:FILE.jsonl`."""
    path = existing(text)
    rows = read_lines(path, _row, _columns) if ".jsonl" in path.suffixes else _csv_rows(path)
    return labelled_task(rows, checkpoint, f"labelled:{one_line(path.name)}", about_file(path), samples, length)


def _csv_rows(path: Path) -> list[Row]:
    """With a header: columns `text` and `label`.  Without: class from 1, then columns of text (as AG News has them)."""
    content = read_text(path)
    csv.field_size_limit(max(csv.field_size_limit(), len(content)))  # the module's own is 131,072 characters
    try:
        table = [row for row in csv.reader(io.StringIO(content, newline="")) if row]
    except csv.Error as error:
        raise _columns(path, str(error)) from error
    header = [cell.strip().lower() for cell in table[0]] if table else []
    if {"text", "label"} <= set(header):
        ragged = [row for row in table if len(row) != len(header)]
        if ragged:
            raise _columns(path, f"a row of {len(ragged[0])} columns: {ragged[0][0][:40]}")
        text, label = header.index("text"), header.index("label")
        return [(row[text], row[label].strip()) for row in table[1:]]
    if len(header) < 2 or not all(is_number(row[0].strip()) and len(row) == len(header) for row in table):
        raise _columns(path, ", ".join(header) or "an empty file")
    return [(" ".join(row[1:]), int(row[0]) - 1) for row in table]


def _row(entry: Any) -> Row:
    words = entry.get("tokens")
    return (str(entry["text"]), entry["label"]) if words is None else (words, entry["labels"])


def _columns(path: Path, found: str) -> BadTask:
    return BadTask(
        f"{path.name} does not hold labelled texts",
        expected="columns text and label (of words: tokens and labels), or no header and class (from 1), title, text",
        found=found,
        next_step="give the columns these names",
    )
