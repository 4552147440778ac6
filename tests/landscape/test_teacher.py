"""Agreement: the end points as teachers of the models between."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from helpers.learning import inputs_of, taught_by, write
from helpers.random_models import random_folder
from onebasin import Checkpoint
from onebasin.checkpoint.stock import stock_model
from onebasin.landscape import evaluate
from onebasin.landscape.teacher import Teacher
from onebasin.tasks import CLASSIFICATION, LANGUAGE

GPT, VIT = "GPT2LMHeadModel", "ViTForImageClassification"


def single(x: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: t.float() if t.is_floating_point() else t for name, t in x.items()}


def test_a_model_disagrees_with_another_and_not_with_itself(tmp_path: Path) -> None:
    """Of all models, the mixture of a model with itself is met best by that model: the divergence is zero there."""
    a, b = write(tmp_path, GPT, 2)
    task, half = taught_by(a, 16), Teacher((a, a), LANGUAGE).at([0.5, 0.5])
    own, other = (evaluate(stock_model(end, torch.float32), task, target=half) for end in (a, b))
    p, q = (stock_model(end, torch.float32)(**task.inputs).logits.log_softmax(-1).detach() for end in (a, b))
    assert abs(own.loss) < 1e-6
    assert own.metrics == {"agreement": 1.0}
    assert other.loss == pytest.approx(float((p.exp() * (p - q)).sum(-1).mean()), rel=1e-5)
    assert other.loss > 0.01
    assert other.metrics["agreement"] == pytest.approx(float((p.argmax(-1) == q.argmax(-1)).float().mean())) != 1


def test_disagreement_follows_the_share(tmp_path: Path) -> None:
    a, b = write(tmp_path, VIT, 2)
    task, teacher = taught_by(a, 16), Teacher((a, b), CLASSIFICATION)
    task = type(task)(task.name, task.kind, single(task.inputs), task.labels, {})
    found = [
        evaluate(stock_model(a, torch.float32), task, target=teacher.at([1 - share, share]), batch_size=5).loss
        for share in (0.0, 0.3, 1.0)
    ]
    assert abs(found[0]) < 1e-6 < found[1] < found[2]
    assert not any(x.requires_grad for x in teacher.parameters())  # the end points are frozen


def test_the_mixture_follows_the_share(tmp_path: Path) -> None:
    a, b = write(tmp_path, VIT, 2)
    x = single(inputs_of(a, 3))
    p, q = (stock_model(end, torch.float32)(**x).logits.softmax(-1) for end in (a, b))
    teacher = Teacher((a, b), CLASSIFICATION)
    torch.testing.assert_close(teacher(x, torch.tensor([0.75, 0.25])), 0.75 * p + 0.25 * q)


def test_the_teacher_is_the_mixture_of_all_ends(tmp_path: Path) -> None:
    ends = write(tmp_path, VIT, 3)
    x = single(inputs_of(ends[0], 3))
    said = [stock_model(end, torch.float32)(**x).logits.softmax(-1) for end in ends]
    expected = 0.2 * said[0] + 0.5 * said[1] + 0.3 * said[2]
    torch.testing.assert_close(Teacher(ends, CLASSIFICATION)(x, torch.tensor([0.2, 0.5, 0.3])), expected)


def test_only_language_models_are_told_to_keep_no_cache(tmp_path):
    """Others do not know the word."""
    extras = {}
    for kind, model_type, name in (
        (LANGUAGE, "gpt2", "GPT2LMHeadModel"), (CLASSIFICATION, "vit", "ViTForImageClassification"),
    ):  # fmt: skip
        ends = [Checkpoint.open(random_folder(tmp_path / f"{kind}-{i}", model_type, name, 3, i)) for i in (0, 1)]
        extras[kind] = Teacher(ends, kind).extra
    assert extras == {LANGUAGE: {"use_cache": False}, CLASSIFICATION: {}}
