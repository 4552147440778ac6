"""Data of the user's own: the batches of a DataLoader, or of anything else that can be gone through, as a task.

They are read once, in their order, and kept: matching, learning and measuring then see the same samples.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from onebasin.checkpoint import Checkpoint
from onebasin.errors import BadTask
from onebasin.spec import Images
from onebasin.tasks.pairs import decoder_inputs
from onebasin.tasks.task import (
    CLASSIFICATION,
    EMBEDDINGS,
    IGNORED,
    LANGUAGE,
    MASKED,
    OTHER,
    PAIRED,
    TAGGING,
    Task,
    check_labels,
    head_of,
    too_few,
)
from onebasin.tasks.tokens import check_ids, mask, reads_tokens

Batch = tuple[dict[str, Tensor], Tensor | None, bool]  # inputs, labels, whether these lie over the inputs

LARGEST = 20_000  # samples that are read where no number is asked for, at most
TOKENS, PIXELS = "input_ids", "pixel_values"


def batches_task(
    batches: Iterable[Any], source: str, checkpoint: Checkpoint, *, samples: int | None, own_loss: bool
) -> Task:
    """The first N samples of batches: dicts as transformers has them, or (inputs, labels).

    With a loss of the user's own the labels are kept as they are.  Else they are what the model's head is for; those
    of a dict lie over the inputs, as transformers has them, and for a model that reads on they are moved by one token.
    """
    if samples is not None and samples < 1:
        raise BadTask("No samples were asked for", expected="at least 1", found=samples, next_step="ask for some")
    read: list[Batch] = []
    count, limit = 0, LARGEST if samples is None else samples
    for number, batch in enumerate(batches):
        read.append(_parts(batch, checkpoint, number))
        count += len(next(iter(read[-1][0].values())))
        if count >= limit:
            break
    name = f"own:{source}"
    if not read or count < (samples or 1):
        raise too_few(samples or 1, count, name)
    inputs = {key: _joined([part[key] for part, _, _ in read], key, checkpoint)[:limit] for key in read[0][0]}
    labels = None
    if all(part is not None for _, part, _ in read):
        labels = _joined([part for _, part, _ in read if part is not None], "labels", checkpoint)[:limit]
    _check_inputs(inputs, checkpoint)
    kind, count = head_of(checkpoint), min(count, limit)
    about = {"source": source, "samples": count, "inputs": list(inputs)}
    if not own_loss:
        inputs, labels = _for_head(kind, inputs, labels, checkpoint, over_inputs=read[0][2])
    return Task(name, kind, inputs, torch.full((count,), IGNORED) if labels is None else labels, about)


def _parts(batch: Any, checkpoint: Checkpoint, number: int) -> Batch:
    """(inputs by name, labels or none) of one batch; what the model's forward does not take is left out."""
    import transformers

    takes = inspect.signature(getattr(transformers, checkpoint.spec.architecture).forward).parameters
    main = PIXELS if isinstance(checkpoint.spec.reads, Images) else TOKENS
    over_inputs = isinstance(batch, Mapping)
    if isinstance(batch, Mapping):
        given, labels = batch, batch.get("labels", batch.get("label"))
    elif isinstance(batch, torch.Tensor):
        given, labels = {main: batch}, None
    elif isinstance(batch, list | tuple) and 1 <= len(batch) <= 2:
        given = batch[0] if isinstance(batch[0], Mapping) else {main: batch[0]}
        labels = batch[1] if len(batch) == 2 else None
    else:
        raise _no_batch(number, type(batch).__name__, main)
    try:
        inputs = {
            key: torch.as_tensor(x).detach().cpu() for key, x in given.items() if key in takes and key != "labels"
        }
        marks = None if labels is None else torch.as_tensor(labels).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise _no_batch(number, error, main) from error
    sizes = {len(x) if x.ndim else 0 for x in (*inputs.values(), *([] if marks is None else [marks]))}
    if main not in inputs or len(sizes) != 1:
        shapes = {key: tuple(x.shape) for key, x in inputs.items()}
        raise _no_batch(number, shapes if marks is None else {**shapes, "labels": tuple(marks.shape)}, main)
    return inputs, marks, over_inputs


def _no_batch(number: int, found: object, main: str) -> BadTask:
    return BadTask(
        f"Batch {number} is not one that the model can read",
        expected=f"a dict with {main} (and labels), or (inputs, labels), with tensors of one number of samples",
        found=found,
        next_step="give a DataLoader with a collate_fn that makes such batches (of texts, one that tokenizes and pads)",
    )


def _joined(parts: list[Tensor], key: str, checkpoint: Checkpoint) -> Tensor:
    """All batches in one; shorter rows are padded at the end."""
    longest = max(x.shape[1] if x.ndim == 2 else 0 for x in parts)
    filler = {TOKENS: checkpoint.config.get("pad_token_id") or 0, "labels": IGNORED}.get(key, 0)
    rows = [pad(x, (0, longest - x.shape[1]), value=filler) if x.ndim == 2 else x for x in parts]
    if len({x.shape[1:] for x in rows}) > 1:
        found = f"{key}: {', '.join(sorted({str(tuple(x.shape)) for x in parts}))}"
        step = "give all samples one shape"
        raise BadTask("The batches do not go together", expected="one shape", found=found, next_step=step)
    return torch.cat(rows)


def _check_inputs(inputs: Mapping[str, Tensor], checkpoint: Checkpoint) -> None:
    """The model can read them, and knows what is padding."""
    reads = checkpoint.spec.reads
    if reads is None:
        return
    if isinstance(reads, Images):
        size, there = (reads.channels, reads.height, reads.width), tuple(inputs[PIXELS].shape[1:])
        if there != size:
            step = "prepare the images with the model's own processor"
            raise BadTask("The images are not of the model's size", expected=size, found=there, next_step=step)
        return
    ids, positions = inputs[TOKENS], reads_tokens(checkpoint).positions
    if ids.ndim != 2 or ids.is_floating_point() or ids.shape[1] > positions:
        found = f"{tuple(ids.shape)} {ids.dtype}"
        expected = f"whole numbers, (samples, at most {positions})"
        raise BadTask("The tokens do not fit the model", expected=expected, found=found, next_step="cut the texts")
    check_ids(ids, reads.vocabulary)


def _for_head(
    kind: str, inputs: dict[str, Tensor], labels: Tensor | None, checkpoint: Checkpoint, *, over_inputs: bool
) -> tuple[dict[str, Tensor], Tensor | None]:
    """The labels as the model's head is measured on them; gaps and next tokens are found in the inputs."""
    ids, source = inputs.get(TOKENS), "the batches"
    if kind == EMBEDDINGS or (kind in (OTHER, PAIRED) and labels is None):
        return inputs, None
    if kind == MASKED and labels is None and ids is not None:
        shown, labels = mask(ids, checkpoint)
        return {**inputs, TOKENS: shown}, labels
    if kind == LANGUAGE and labels is None and ids is not None:
        there = inputs.get("attention_mask", ids.new_ones(ids.shape))
        labels, over_inputs = ids.masked_fill(there == 0, IGNORED), True
    if labels is None:
        return inputs, None
    if kind == PAIRED and labels.ndim == 2 and not labels.is_floating_point():
        check_ids(labels, reads_tokens(checkpoint).vocabulary)
        return {**decoder_inputs(labels, checkpoint), **inputs}, labels
    shape = (len(labels),) if kind == CLASSIFICATION else None if ids is None else tuple(ids.shape)
    if kind in (OTHER, PAIRED) or labels.is_floating_point() or tuple(labels.shape) != shape:
        raise BadTask(
            f"The labels do not fit the head of {checkpoint.spec.architecture}",
            expected=f"whole numbers of shape {shape}, for {kind}",
            found=f"{tuple(labels.shape)} {labels.dtype}",
            next_step="give such labels, or a loss of your own: loss=lambda outputs, labels: ...",
        )
    labels = labels.long()
    if kind in (CLASSIFICATION, TAGGING):
        check_labels(labels[labels != IGNORED], checkpoint, source)
    else:
        check_ids(labels, reads_tokens(checkpoint).vocabulary)
    if kind == LANGUAGE and over_inputs:
        labels = labels.roll(-1, 1)
        labels[:, -1] = IGNORED
    elif kind == LANGUAGE and ids is not None and labels.equal(ids):
        step = 'shift them by one token, or give dicts: {"input_ids": ids, "labels": ids}'
        raise BadTask("The labels are the inputs themselves", expected="the next tokens", found="each", next_step=step)
    return inputs, labels
