"""Loss and metrics of a model on a task, and what cannot be evaluated."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import cross_entropy

from helpers.tiny import F64
from onebasin.errors import BadTask
from onebasin.landscape import evaluate
from onebasin.landscape.evaluate import LOGITS
from onebasin.tasks import CLASSIFICATION, IGNORED, LANGUAGE, Task


class Fixed(torch.nn.Module):
    """A model that answers row by row from a table of logits."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(logits)

    def forward(self, row: torch.Tensor, **_: object) -> SimpleNamespace:
        return SimpleNamespace(logits=self.table[row])


def fixed(shape: tuple[int, ...], kind: str, **about: object) -> tuple[Fixed, Task]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(*shape, generator=generator, dtype=F64)
    labels = torch.randint(shape[-1], shape[:-1], generator=generator)
    return Fixed(logits), Task("fixed", kind, {"row": torch.arange(shape[0])}, labels, about)


def test_classification_figures():
    model, task = fixed((10, 4), CLASSIFICATION)
    found = evaluate(model, task, batch_size=3)
    each = cross_entropy(model.table, task.labels, reduction="none").detach()
    assert found.loss == pytest.approx(float(each.mean()))
    assert found.standard_error == pytest.approx(float(each.std()) / math.sqrt(10))
    assert found.metrics == {"accuracy": pytest.approx(float((model.table.argmax(-1) == task.labels).double().mean()))}
    assert found.samples == 10


def test_language_figures_count_labelled_tokens_only():
    model, task = fixed((6, 5, 7), LANGUAGE, tokens="bytes")
    labels = task.labels.clone()
    labels[0, 2:], labels[3, 0] = IGNORED, IGNORED
    found = evaluate(model, replace(task, labels=labels), batch_size=4)
    kept = labels != IGNORED
    loss = float(cross_entropy(model.table[kept].detach(), labels[kept]))
    assert found.loss == pytest.approx(loss)
    assert found.metrics["perplexity"] == pytest.approx(math.exp(loss))
    assert found.metrics["bits_per_byte"] == pytest.approx(loss / math.log(2))
    assert found.metric_errors["bits_per_byte"] == pytest.approx(found.standard_error / math.log(2))
    assert found.metric_errors["perplexity"] == pytest.approx(math.exp(loss) * found.standard_error)
    assert found.metrics["accuracy"] == pytest.approx(float((model.table.argmax(-1) == labels)[kept].double().mean()))
    assert found.loss != pytest.approx(evaluate(model, task).loss)  # the ignored ones would have counted
    assert "bits_per_byte" not in evaluate(model, replace(task, about={"tokens": "tokenizer"})).metrics


def test_every_sample_counts_once_however_many_labels_it_has():
    """The loss of a text is the mean over its own labels, and the standard error is over texts."""
    model, task = fixed((6, 5, 7), LANGUAGE)
    labels = task.labels.clone()
    labels[0, 1:], labels[3, 0], labels[4] = IGNORED, IGNORED, IGNORED  # one label, four, none
    found = evaluate(model, replace(task, labels=labels), batch_size=4)
    kept = [row != IGNORED for row in labels]
    each = [
        float(cross_entropy(logits[k], row[k])) if k.any() else 0.0
        for logits, row, k in zip(model.table.detach(), labels, kept, strict=True)
    ]
    assert found.losses.tolist() == pytest.approx(each)
    assert found.standard_error == pytest.approx(float(torch.tensor(each, dtype=F64).std()) / math.sqrt(6))
    assert evaluate(model, task.first(1)).standard_error == 0  # one sample has no spread


def test_a_perplexity_beyond_all_numbers_is_a_large_number():
    model, task = fixed((2, 3, 4), LANGUAGE)
    with torch.no_grad():
        model.table.copy_(torch.nn.functional.one_hot((task.labels + 1) % 4, 4) * 900.0)
    found = evaluate(model, task)
    assert found.loss == pytest.approx(900)
    assert found.metrics["perplexity"] == math.exp(700)


def test_a_loss_that_is_not_finite_is_refused():
    model, task = fixed((4, 3), CLASSIFICATION)
    with torch.no_grad():
        model.table[1] = math.nan
    with pytest.raises(BadTask, match="not finite"):
        evaluate(model, task)


def test_logits_of_a_large_vocabulary_are_made_a_few_samples_at_a_time():
    model, task = fixed((6, 8, 4), LANGUAGE)
    few = evaluate(model, task, batch_size=6)
    seen = []
    model.register_forward_pre_hook(lambda _, __, given: seen.append(len(given["row"])), with_kwargs=True)
    model.config = SimpleNamespace(vocab_size=LOGITS // 16)  # of 8 tokens each, two samples fit
    assert evaluate(model, task, batch_size=6).losses.equal(few.losses)
    assert seen == [2, 2, 2]
    model.config.vocab_size = 10 * LOGITS
    seen.clear()
    evaluate(model, task, batch_size=6)
    assert seen == [1] * 6
