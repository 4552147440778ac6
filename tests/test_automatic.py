"""The automatic method: what it chooses from what it sees, and that it is never worse than its starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from helpers.random_models import random_folder
from onebasin import Alignment, Checkpoint, canonicalize, transport
from onebasin.archs import known
from onebasin.automatic import QUICK, Chosen, choose
from onebasin.errors import BadTask
from onebasin.landscape import Simplex
from onebasin.learn import LearnedMatching, learn
from onebasin.learn.teacher import Teacher, disagreement
from onebasin.stock import stock_model
from onebasin.tasks import Task, synthetic_task, training

MODELS = [
    ("gpt2", "GPT2LMHeadModel"),
    ("llama", "LlamaForCausalLM"),
    ("vit", "ViTForImageClassification"),
    ("bert", "BertForSequenceClassification"),
]
SHORT = replace(QUICK, steps=4, batch=8, eval_every=2)
WILD = replace(SHORT, lr=1.0, clip=0.0, schedule="constant", warmup=0.0)  # learning mostly makes it worse


def inputs(*models: Checkpoint, samples: int = 40) -> Task:
    return synthetic_task(models, samples=samples, length=6)


def pair(folder: Path, model_type: str, name: str) -> tuple[Checkpoint, Checkpoint]:
    ends = (random_folder(folder / str(i), model_type, name, 3, weights_seed=i) for i in (1, 2))
    a, b = (Checkpoint.open(end) for end in ends)
    return a, b


@pytest.mark.parametrize(("model_type", "name"), MODELS, ids=[name for _, name in MODELS])
def test_a_scrambled_copy_comes_back_without_data(tmp_path: Path, model_type: str, name: str) -> None:
    form = canonicalize(Checkpoint.open(random_folder(tmp_path / "stored", model_type, name, 5))).checkpoint
    form.save(tmp_path / "a", dtype="F32")
    a = Checkpoint.open(tmp_path / "a")
    transport(form, Alignment.random(form.spec, seed=2)).save(tmp_path / "b", dtype="F32")
    chosen = choose((a, Checkpoint.open(tmp_path / "b")), inputs(a), replace(SHORT, steps=1, lr=0.0))
    x = inputs(a).inputs
    middle, original = (stock_model(end)(**_wide(x)).logits for end in (chosen.pairs[0].midpoint(), a))
    assert (middle - original).abs().max() < 1e-4 * original.abs().max().clamp_min(1)
    assert "weights" in chosen.why


def left(centre: Checkpoint, ends: tuple[Checkpoint, ...], task: Task) -> float:
    """How far a model is from what the ends say on the inputs that are held back: a fifth."""
    held = training(task).split(len(task) // 5)[1]
    model = stock_model(centre, torch.float32)
    return disagreement(model, held, Teacher(ends, task.kind), torch.device("cpu"))


def _wide(x: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: t.double() if t.is_floating_point() else t for name, t in x.items()}


@pytest.mark.parametrize(("model_type", "name"), MODELS, ids=[name for _, name in MODELS])
def test_the_result_is_never_worse_than_the_starts_and_exact(tmp_path: Path, model_type: str, name: str) -> None:
    a, b = pair(tmp_path, model_type, name)
    task = inputs(a, b).unlabelled()
    chosen = choose((a, b), task, WILD)
    points = [point.midpoint for point in chosen.learned[1].history]
    assert points[0] == pytest.approx(min(chosen.midpoints.values()), rel=1e-4)
    assert (points[-1] > 1.001 * points[0]) == (model_type != "bert")  # so the last must not be what is kept
    assert left(chosen.pairs[0].midpoint(), (a, b), task) == pytest.approx(min(points), rel=1e-4)
    assert chosen.learned[1].options.loss == "agreement"
    outputs = [stock_model(end)(**_wide(task.inputs)).logits for end in (chosen.pairs[0].b, b)]
    assert (outputs[0] - outputs[1]).abs().max() < 1e-9 * outputs[1].abs().max().clamp_min(1)


@pytest.mark.parametrize("name", [x for names in known().values() for x in names if "For" in x or "LMHead" in x])
def test_every_model_that_predicts_is_served(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what happens where no method is named, so no class may be left out."""
    monkeypatch.setattr("onebasin.automatic.TEXTS", 12)
    monkeypatch.setattr("onebasin.automatic.PICTURES", 12)
    model_type = next(kind for kind, names in known().items() if name in names)
    chosen = choose(pair(tmp_path, model_type, name), options=replace(SHORT, steps=1, batch=4))
    assert len(chosen.learned[1].history) == 2


@pytest.mark.parametrize(("model_type", "name"), [MODELS[0], MODELS[2]], ids=["GPT2LMHeadModel", "ViT"])
def test_of_three_models_the_centre_is_never_worse_than_the_starts(tmp_path: Path, model_type: str, name: str) -> None:
    ends = [Checkpoint.open(random_folder(tmp_path / str(i), model_type, name, 3, weights_seed=i)) for i in range(3)]
    task = inputs(*ends).unlabelled()
    chosen = choose(ends, task, WILD, rounds=2)
    points = [point.midpoint for point in chosen.learned[0].history]
    assert points[0] == pytest.approx(min(chosen.midpoints.values()), rel=1e-4)
    assert points[-1] > 1.001 * points[0]
    centre = Simplex([chosen.pairs[0].a, *(pair.b for pair in chosen.pairs)]).at([1 / 3] * 3)
    assert left(centre, tuple(ends), task) == pytest.approx(min(points), rel=1e-4)
    assert "centre" in chosen.why
    assert chosen.learned[1].options.law == "dirichlet"
    for end, pair in zip(ends[1:], chosen.pairs, strict=True):
        one, other = (stock_model(model)(**_wide(task.inputs)).logits for model in (pair.b, end))
        assert (one - other).abs().max() < 1e-9 * other.abs().max().clamp_min(1)


def test_labels_are_used_where_there_are_some(tmp_path: Path) -> None:
    a, b = pair(tmp_path, *MODELS[0])
    chosen = choose((a, b), replace(inputs(a, b), name="text"), SHORT)
    assert chosen.learned[1].options.loss == "task"
    assert "task loss" in chosen.why


def test_nothing_given_means_synthetic_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair(tmp_path, *MODELS[2])
    monkeypatch.setattr("onebasin.automatic.PICTURES", 30)
    chosen: Chosen = choose((a, b), options=SHORT)
    assert "no task was given" in chosen.why
    assert "made up 30 inputs" in chosen.why


def test_agreement_is_least_where_the_models_agree(tmp_path: Path) -> None:
    """Of all models, the teacher's mixture of a model with itself is met best by that model."""
    a, b = pair(tmp_path, *MODELS[0])
    task, teacher = inputs(a, b), Teacher((a, a), "language")
    own, other = (disagreement(stock_model(end, torch.float32), task, teacher, torch.device("cpu")) for end in (a, b))
    p = stock_model(a, torch.float32)(**task.inputs).logits.softmax(-1).detach()
    entropy = float(-(p * p.log()).sum(-1).mean())
    assert own == pytest.approx(entropy, rel=1e-5)
    assert other > own * 1.001


def test_the_mixture_follows_the_share(tmp_path: Path) -> None:
    a, b = pair(tmp_path, *MODELS[2])
    x = inputs(a, b).inputs
    teacher = Teacher((a, b), "classification")
    p, q = (stock_model(end, torch.float32)(**x).logits.softmax(-1) for end in (a, b))
    torch.testing.assert_close(teacher(dict(x), torch.tensor([0.75, 0.25])), 0.75 * p + 0.25 * q)


def test_a_task_loss_without_labels_is_refused(tmp_path: Path) -> None:
    a, b = pair(tmp_path, *MODELS[2])
    with pytest.raises(BadTask, match="no labels"):
        learn(a, b, None, inputs(a, b), 5, LearnedMatching(steps=1, batch=4))


@pytest.mark.parametrize(("model_type", "name"), [("gpt2", "GPT2Model"), ("vit", "ViTModel")])
def test_a_model_without_a_head_is_refused(tmp_path: Path, model_type: str, name: str) -> None:
    a, b = pair(tmp_path, model_type, name)
    with pytest.raises(BadTask, match="has no head"):
        choose((a, b))
    with pytest.raises(BadTask, match="has no head"):
        learn(a, b, None, Task("none", "classification", {}, torch.zeros(1, dtype=torch.long), {}))
