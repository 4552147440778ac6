"""Gaps in a text, labels of words, and models without a head: as files give them, and as they are counted."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import cosine_similarity, cross_entropy

from helpers.random_models import random_folder
from helpers.task_files import WORDS, add_tokenizer, bert, npz, pixels, refused
from onebasin import Checkpoint
from onebasin.checkpoint.stock import stock_model
from onebasin.errors import BadTask
from onebasin.landscape import evaluate
from onebasin.landscape.teacher import Teacher
from onebasin.tasks import EMBEDDINGS, IGNORED, MASKED, TAGGING, load_task
from onebasin.tasks.losses import mean, per_sample, said, scores

HIDES = WORDS.index("very")


@pytest.fixture
def text(tmp_path) -> str:
    (tmp_path / "t.txt").write_text("good film bad film bad good " * 40)
    return f"text:{tmp_path / 't.txt'}"


def test_gaps_are_drawn_by_the_seed_and_every_window_has_one(tmp_path, text):
    add_tokenizer(folder := bert(tmp_path / "m", name="BertForMaskedLM"), mask_token="very")
    model = Checkpoint.open(folder)
    task, again = (load_task(text, model, samples=30, length=6) for _ in range(2))
    ids, hidden = task.inputs["input_ids"], task.labels != IGNORED
    assert task.kind == MASKED
    assert ids.equal(again.inputs["input_ids"])
    assert hidden.any(1).all()
    assert 0.1 < hidden.float().mean() < 0.35  # one in seven, and at least one of six
    assert (ids == HIDES).equal(hidden)
    words = torch.tensor([WORDS.index(word) for word in ("good film bad film bad good " * 3).split()])
    whole = torch.where(hidden, task.labels, ids)
    assert all(any(row.equal(words[i : i + 6]) for i in range(6)) for row in whole)
    found = evaluate(stock_model(model, torch.float64), task)
    logits = stock_model(model, torch.float64)(**task.inputs).logits.detach()
    assert found.loss == pytest.approx(float(cross_entropy(logits[hidden], task.labels[hidden])))
    assert found.metrics == {
        "accuracy": pytest.approx(float((logits.argmax(-1) == task.labels)[hidden].double().mean()))
    }


def test_tokens_around_a_text_are_not_hidden(tmp_path, text):
    add_tokenizer(folder := bert(tmp_path / "m", name="BertForMaskedLM"), mask_token="very", cls_token="[UNK]")
    task = load_task(text, Checkpoint.open(folder), samples=10, length=4)
    assert (task.inputs["input_ids"][:, 0] == WORDS.index("[UNK]")).all()
    assert (task.labels[:, 0] == IGNORED).all()


def test_a_word_has_one_label_and_padding_none(tmp_path):
    model = bert(tmp_path / "m", name="BertForTokenClassification", num_labels=3)
    file = tmp_path / "t.jsonl"
    file.write_text('{"tokens": ["good", "film"], "labels": [1, 0]}\n{"tokens": ["bad"], "labels": [2]}\n')
    task = load_task(f"labelled:{file}", Checkpoint.open(model), length=3)
    assert task.kind == TAGGING
    assert task.labels.tolist() == [[1, 0, IGNORED], [2, IGNORED, IGNORED]]
    logits = stock_model(Checkpoint.open(model))(**task.inputs).logits.detach()
    kept = task.labels != IGNORED
    found = evaluate(stock_model(Checkpoint.open(model)), task)
    assert found.loss == pytest.approx(float(cross_entropy(logits[kept], task.labels[kept])))
    assert found.loss != pytest.approx(float(cross_entropy(logits.flatten(0, 1), task.labels.clamp_min(0).flatten())))
    file.write_text('{"tokens": ["good", "film"], "labels": [1]}\n')
    refused(f"labelled:{file}", model, "a label for each word", "lists of one length")
    file.write_text('{"tokens": ["good", "film"], "labels": [1, 5]}\n')
    refused(f"labelled:{file}", model, "classes 0 to 2", "found: 1 to 5")
    file.write_text('{"text": "good film", "label": 1}\n')
    refused(f"labelled:{file}", model, "a label for each word")


def test_a_word_of_two_tokens_is_counted_once(tmp_path):
    """The first token bears the label: here the tokenizer splits words at hyphens."""
    model = bert(tmp_path / "m", name="BertForTokenClassification", num_labels=3)
    (tmp_path / "t.jsonl").write_text('{"tokens": ["good-film", "bad"], "labels": [1, 2]}\n')
    task = load_task(f"labelled:{tmp_path / 't.jsonl'}", Checkpoint.open(model), length=6)
    assert task.inputs["input_ids"][0].tolist() == [2, 1, 4, 3, 0, 0]
    assert task.labels[0].tolist() == [1, IGNORED, IGNORED, 2, IGNORED, IGNORED]


def test_without_a_head_texts_and_images_have_no_labels(tmp_path, text):
    model = Checkpoint.open(bert(tmp_path / "m", name="BertModel"))
    task = load_task(text, model, samples=5, length=4)
    assert (task.kind, task.scored) == (EMBEDDINGS, False)
    (tmp_path / "t.csv").write_text("text,label\ngood film,1\nbad,0\n")
    assert load_task(f"labelled:{tmp_path / 't.csv'}", model, length=3).inputs["attention_mask"].sum() == 3
    with pytest.raises(BadTask, match="nothing to measure"):
        evaluate(stock_model(model, torch.float32), task)
    sees = Checkpoint.open(random_folder(tmp_path / "v", "vit", "ViTModel", 3))
    task = load_task(
        npz(tmp_path / "i.npz", images=pixels(3, 8, 8, 1), labels=[7, 8, 9]), sees
    )  # no head, no wrong classes
    assert (task.kind, task.scored, len(task)) == (EMBEDDINGS, False, 3)


def embedded(vectors: torch.Tensor) -> SimpleNamespace:
    return SimpleNamespace(last_hidden_state=vectors)


def test_cosines_leave_padding_and_the_sample_itself_out():
    states = torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1, 0, 0]] * 3 + [[1] * 5])
    found = said(embedded(states), {"attention_mask": mask})
    means = torch.stack([states[i, : mask[i].sum()].mean(0) for i in range(4)])
    for i in range(4):
        for j in range(4):
            assert float(found[i, j]) == pytest.approx(
                -1 if i == j else float(cosine_similarity(means[i], means[j], 0))
            )
    assert not torch.allclose(found, said(embedded(states), {}))  # the control: with padding


def test_the_loss_of_embeddings_is_that_of_their_cosines_alone():
    g = torch.Generator().manual_seed(0)
    states, other = torch.randn(2, 6, 5, 4, generator=g, dtype=torch.float64)
    target = (said(embedded(states), {}) + said(embedded(other), {})) / 2
    turn = torch.linalg.qr(torch.randn(4, 4, generator=g, dtype=torch.float64)).Q
    loss = mean(*scores(embedded(states), {}, target))
    expected = (said(embedded(states), {}) - target).square().sum() / 30  # pairs
    assert float(loss) == pytest.approx(float(expected))
    assert float(mean(*scores(embedded(states @ turn), {}, target))) == pytest.approx(float(loss))  # no basis
    assert float(loss) > 1e-3


def test_the_teacher_of_embeddings_is_the_mean_of_the_matrices(tmp_path, text):
    a = Checkpoint.open(bert(tmp_path / "a", name="BertModel"))
    task = load_task(text, a, samples=5, length=4)
    stretched = Checkpoint.open(bert(tmp_path / "b", name="BertModel", layer_norm_eps=1.0))
    each = [said(stock_model(x, torch.float32)(**task.inputs), task.inputs) for x in (a, stretched)]
    torch.testing.assert_close(Teacher((a, stretched), EMBEDDINGS).at([0.5, 0.5])(task.inputs), sum(each) / 2)
    assert (each[0] - each[1]).abs().max() > 1e-3


def test_a_loss_of_ones_own_is_one_number_or_one_for_each():
    values = torch.tensor([1.0, 2.0, 6.0])
    assert float(mean(*per_sample("loss", values, 3))) == 3
    assert float(mean(*per_sample("loss", values.mean(), 3))) == 3
    for wrong in (3.0, values[:2], values[:, None]):
        with pytest.raises(BadTask, match="loss gave something else"):
            per_sample("loss", wrong, 3)
