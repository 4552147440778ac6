"""Ordinary training of a merged model: what it lowers, what it depends on, and that nothing else changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from helpers.learning import taught_by, write_pair
from helpers.random_models import byte_llama
from onebasin import Checkpoint
from onebasin.checkpoint.stock import stock_model
from onebasin.errors import Diverged
from onebasin.healing import train
from onebasin.healing.options import Healing
from onebasin.healing.train import _counted, heal
from onebasin.landscape import evaluate
from onebasin.processes.world import World
from onebasin.tasks import IGNORED, mix

CPU = torch.device("cpu")
QUICK = {"steps": 20, "batch": 16, "lr": 3e-3, "dtype": "float64"}
NAMES = ("GPT2LMHeadModel", "ViTForImageClassification", "LlamaForCausalLM", "BertForSequenceClassification")


def healed(model: Checkpoint, data, **options: object) -> Checkpoint:
    return heal(model, data, Healing(**{**QUICK, **options}), device=CPU)[0]


def loss_of(model: Checkpoint, task) -> float:
    return evaluate(stock_model(model), task).loss


@pytest.mark.parametrize("name", NAMES)
def test_training_lowers_the_loss_of_what_it_learns_from(name, tmp_path):
    a, b = write_pair(tmp_path, name)
    task = taught_by(a, 32)
    before, after = loss_of(b, task), loss_of(healed(b, task), task)
    assert after < before - 0.01
    assert loss_of(healed(b, task, lr=0.0), task) == pytest.approx(before)  # the control


def test_no_steps_are_no_change(tmp_path):
    a, _ = write_pair(tmp_path, NAMES[0])
    assert heal(a, taught_by(a, 32), Healing(steps=0), device=CPU) == (a, [])


def test_steps_are_those_of_adamw_on_the_task_loss(tmp_path):
    """All samples in every batch; two steps of warm-up and two of a half cosine, written out with torch alone."""
    a, b = write_pair(tmp_path, NAMES[1])
    task = taught_by(a, 8)
    found = healed(b, task, steps=4, batch=8, warmup=0.5, clip=0.5, weight_decay=0.1, dropout=False)
    model = stock_model(b)
    adam = torch.optim.AdamW(model.parameters(), weight_decay=0.1)
    for rate in (1 / 3, 2 / 3, 1, 1 / 2):
        adam.param_groups[0]["lr"] = 3e-3 * rate
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(**task.inputs).logits, task.labels).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        adam.step()
    own = dict(model.named_parameters())
    for name, p in stock_model(found).named_parameters():
        torch.testing.assert_close(p, own[name], rtol=0, atol=1e-9)
    assert not stock_model(b).classifier.weight.equal(own["classifier.weight"])  # the control


def test_the_seed_decides_everything(tmp_path):
    a, b = write_pair(tmp_path, NAMES[2])  # it has dropout
    task = mix({"a": taught_by(a, 24), "b": taught_by(b, 24, seed=1)})
    one, same, other = (healed(b, task, steps=3, seed=seed) for seed in (0, 0, 1))
    assert all(one[leaf].equal(same[leaf]) for leaf in one)
    assert not all(one[leaf].equal(other[leaf]) for leaf in one)


def test_the_loss_is_the_mean_of_the_tasks_by_weight(tmp_path):
    """A task that counts for next to nothing is not learned."""
    a, b = write_pair(tmp_path, NAMES[0])
    tasks = {"a": taught_by(a, 32), "b": taught_by(b, 32, seed=1)}
    only = {name: healed(b, mix(tasks, {name: 1e6})) for name in tasks}
    assert loss_of(only["a"], tasks["a"]) < loss_of(only["b"], tasks["a"])
    assert loss_of(only["b"], tasks["b"]) < loss_of(only["a"], tasks["b"])


@pytest.mark.parametrize("tied", [True, False])
def test_the_file_keeps_its_names_shapes_and_dtypes(tied, tmp_path):
    from safetensors.torch import load_file

    byte_llama(tmp_path / "a", tie_word_embeddings=tied)
    model = Checkpoint.open(tmp_path / "a")
    model.save(tmp_path / "half", dtype="bfloat16")
    half = Checkpoint.open(tmp_path / "half")
    from onebasin.tasks import load_task

    healed(half, load_task("builtin:python", half, samples=16), steps=2, dtype="float32").save(tmp_path / "healed")
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("half", "healed"))
    assert {n: (x.dtype, x.shape) for n, x in before.items()} == {n: (x.dtype, x.shape) for n, x in after.items()}
    assert not all(before[name].equal(after[name]) for name in before)


def test_a_loss_that_is_not_finite_ends_it(tmp_path: Path):
    a, b = write_pair(tmp_path, NAMES[0])
    with pytest.raises(Diverged, match="not finite"):
        healed(b, taught_by(a, 32), lr=1e25, clip=0.0)


def test_what_a_mean_counts_is_labels_or_samples_for_a_loss_of_ones_own():
    labels = torch.tensor([[1, IGNORED, 2], [IGNORED, IGNORED, 3]])
    assert int(_counted(labels, SimpleNamespace(loss=None))) == 3
    assert int(_counted(labels, SimpleNamespace(loss=len))) == 2


def test_a_step_follows_the_gradient_of_the_mean_loss(tmp_path, monkeypatch):
    """Of a batch that has all samples; AdamW alone would not show by how much it is too long."""
    a, b = write_pair(tmp_path, NAMES[1])
    data, seen = taught_by(a, 8), []
    monkeypatch.setattr(
        torch.optim.AdamW,
        "step",
        lambda self, closure=None: seen.extend(
            p.grad.clone() for group in self.param_groups for p in group["params"] if p.grad is not None
        ),
    )
    healed(b, data, steps=1, batch=8, clip=0.0, dropout=False)
    stock = stock_model(b)
    torch.nn.functional.cross_entropy(stock(**data.inputs).logits, data.labels).backward()
    expected = [p.grad for p in stock.parameters() if p.grad is not None]
    for found, wanted in zip(seen, expected, strict=True):
        torch.testing.assert_close(found.to(wanted.dtype), wanted, rtol=1e-4, atol=1e-6)


def test_losses_are_told_every_few_steps_and_at_the_end(tmp_path, monkeypatch):
    """Each is the mean since the last; where nothing is learned and a batch has all samples, all are the same."""
    a, b = write_pair(tmp_path, NAMES[1])
    data, told = taught_by(a, 8), []
    monkeypatch.setattr(train, "EVERY", 4)
    still = Healing(**{**QUICK, "steps": 10, "batch": 8, "lr": 0.0, "dropout": False})
    _, losses = heal(b, data, still, device=CPU, tick=lambda *step: told.append(step))
    expected = loss_of(b, data)
    assert losses == pytest.approx([expected] * 3)
    assert told == [(f"loss {expected:.4f}", done, 10) for done in (4, 8, 10)]


@dataclass(frozen=True)
class Beside(World):
    """One of two processes; the other has so many times as many labels, and the same gradients and losses."""

    times: int = 1

    def part(self, count: torch.Tensor) -> torch.Tensor:
        return 2 * count / (count + self.times * count)

    def average(self, gradients: object, parts: int) -> None:
        pass


def test_every_process_counts_by_its_labels(tmp_path):
    a, b = write_pair(tmp_path, NAMES[1])
    data, one = taught_by(a, 8), Healing(**{**QUICK, "steps": 1, "batch": 8, "dropout": False})
    (even,), (few,) = (heal(b, data, one, device=CPU, world=Beside(2, 0, times))[1] for times in (1, 3))
    assert few == pytest.approx(even / 2)
