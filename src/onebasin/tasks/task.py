"""Task: labelled data in the form one model reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Generator, Tensor

from onebasin.checkpoint import Checkpoint, transformers_config
from onebasin.errors import BadTask

Measure = Callable[[Any, Any], Any]
"""(outputs of the model, labels) -> a tensor: one number for each sample, or the mean of them."""

CLASSIFICATION, LANGUAGE = "classification", "language"
MASKED, TAGGING, EMBEDDINGS = "masked language", "token labels", "embeddings"
PAIRED = "text to text"  # one text is read, and another one written
OTHER = "another purpose"  # a head that only a loss of the user's own can measure
SYNTHETIC = "synthetic"  # the name of inputs that models made up
MADE = 1_000_000  # samples that are made where they are asked for, at most
IGNORED = -100  # a label that is not counted

_KINDS = {  # what the end of a model's class name says about its head
    "ForSequenceClassification": CLASSIFICATION,
    "ForImageClassification": CLASSIFICATION,
    "ForImageClassificationWithTeacher": CLASSIFICATION,
    "ForCausalLM": LANGUAGE,
    "LMHeadModel": LANGUAGE,
    "ForMaskedLM": MASKED,
    "ForConditionalGeneration": PAIRED,
    "ForTokenClassification": TAGGING,
    "Model": EMBEDDINGS,
    "ModelWithProjection": EMBEDDINGS,
}
_FITTING = {  # data that a head can use
    CLASSIFICATION: "this one names images or texts: images:FOLDER, labelled:FILE.csv",
    LANGUAGE: "this one reads on: text:FILE",
    MASKED: "this one fills gaps: text:FILE",
    PAIRED: "this one makes one text of another: pairs:FILE.csv",
    TAGGING: "this one labels words: labelled:FILE.jsonl with words and labels in lists",
    EMBEDDINGS: "this one has no head: text:FILE, images:FOLDER or synthetic, without labels",
    OTHER: "for this one give a loss of your own, from Python",
}


@dataclass(frozen=True)
class Task:
    """N samples: `inputs` stacked by name, `labels` (N,) classes or (N, T) tokens; `about` says what they are.

    `text` holds all token ids of the text that windows were taken from.  `loss` takes the place of the loss that goes
    with the kind, whatever its labels are; `metrics` are measured besides.
    """

    name: str
    kind: str
    inputs: Mapping[str, Tensor]
    labels: Tensor
    about: Mapping[str, Any]
    text: Tensor | None = field(default=None, repr=False, compare=False)
    loss: Measure | None = None
    metrics: Mapping[str, Measure] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def scored(self) -> bool:
        """Whether a model can be measured alone; without labels it is compared with the models it lies between."""
        return self.loss is not None or (self.kind != EMBEDDINGS and bool((self.labels != IGNORED).any()))

    @property
    def labelled(self) -> bool:
        """Whether there is a truth to learn from; text that models made up has none."""
        return self.name != SYNTHETIC and self.scored

    @property
    def length(self) -> int:
        """Labels of a sample: tokens of a window, or 1."""
        return self.labels[0].numel()

    def batches(self, size: int) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        """The samples in order, `size` at a time; the last batch may be smaller."""
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))

    def take(self, index: Tensor | slice) -> tuple[dict[str, Tensor], Tensor]:
        """The samples with these numbers, as one batch."""
        return {name: x[index] for name, x in self.inputs.items()}, self.labels[index]

    def order(self, generator: Generator) -> Tensor:
        """All samples once, shuffled: what `take` is to be given in one epoch."""
        return torch.randperm(len(self), generator=generator)

    def to(self, device: torch.device | str) -> Task:
        """The same samples on a device."""
        inputs = {name: x.to(device) for name, x in self.inputs.items()}
        return replace(self, inputs=inputs, labels=self.labels.to(device))

    def split(self, n: int) -> tuple[Task, Task]:
        """(the others, n samples): one to learn from and one to hold back, drawn, as files are often in some order."""
        if not 0 < n < len(self):
            raise too_few(n, len(self) - 1, self.name)
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(0))
        return self._part(order[n:].sort().values), self._part(order[:n].sort().values)

    def unlabelled(self) -> Task:
        """The same inputs, with all labels taken away, what is measured by them, and the text of windows."""
        labels = self.labels.new_full(self.labels.shape, IGNORED)
        return replace(self, labels=labels, text=None, loss=None, metrics={})

    def first(self, n: int) -> Task:
        """The first n samples."""
        if not 0 < n <= len(self):
            raise too_few(n, len(self), self.name)
        return self._part(slice(n))

    def after(self, n: int) -> Task:
        """All samples but the first n."""
        if not 0 <= n < len(self):
            raise too_few(n, len(self) - 1, self.name)
        return self._part(slice(n, None))

    def _part(self, index: Tensor | slice) -> Task:
        inputs, labels = self.take(index)
        return replace(self, inputs=inputs, labels=labels, about={**self.about, "samples": len(labels)})


def check_one_kind(checkpoint: Checkpoint) -> None:
    """No task has texts that belong to images."""
    if checkpoint.spec.reads is None:
        raise BadTask(
            f"{checkpoint.spec.architecture} reads {' and '.join(checkpoint.spec.inputs)}, and no task has both",
            next_step="use --method weight, which needs no task; or give batches and a loss of your own, from Python",
        )


def head_of(checkpoint: Checkpoint) -> str:
    """What the model's head is for."""
    name = checkpoint.spec.architecture
    if checkpoint.spec.reads is None:
        return OTHER
    return next((kind for ending, kind in _KINDS.items() if name.endswith(ending)), OTHER)


def head_kind(checkpoint: Checkpoint, *wanted: str) -> str:
    """What the model's head is for, which must be one of these kinds of task."""
    found = head_of(checkpoint)
    if found not in wanted:
        endings = " or ".join(ending for ending, kind in _KINDS.items() if kind in wanted)
        raise BadTask(
            f"The task does not fit the head of {checkpoint.spec.architecture}",
            expected=f"a model for {' or '.join(wanted)}",
            found=found,
            next_step=f"give a model whose class name ends in {endings}; {_FITTING[found]}",
        )
    return found


def class_count(checkpoint: Checkpoint) -> int:
    """How many classes the model tells apart."""
    return int(transformers_config(checkpoint.config).num_labels)


def check_labels(labels: Tensor, checkpoint: Checkpoint, source: str) -> None:
    """Every label is one of the head's classes, and there is at least one."""
    if len(labels) == 0:
        raise BadTask(f"{source} holds no samples", expected="at least one", found=0, next_step="give another file")
    classes, low, high = class_count(checkpoint), int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise BadTask(
            f"The labels of {source} do not fit the head of {checkpoint.spec.architecture}",
            expected=f"classes 0 to {classes - 1}",
            found=f"{low} to {high}",
            next_step="give the data the model was trained for, with classes counted from 0 in the model's own order",
        )


def too_few(wanted: int, there: int, source: str) -> BadTask:
    """The refusal of a request for more samples than there are."""
    step = f"ask for a number from 1 to {there}" if there else "give more data"
    return BadTask(f"{source} cannot give that many samples", expected=there, found=wanted, next_step=step)
