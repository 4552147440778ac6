"""Inputs without data: they have the law they promise, they are drawn again from the same seed, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from helpers.classes import any_of_each_type
from helpers.random_models import random_folder, random_model
from helpers.task_files import bert, gpt2, vit
from onebasin import Checkpoint
from onebasin.checkpoint.stock import stock_model
from onebasin.errors import BadTask
from onebasin.tasks import IGNORED, LANGUAGE, load_task, synthetic, synthetic_task
from onebasin.tasks.synthetic import dead_leaves


@any_of_each_type()
def test_every_model_reads_what_is_made_for_it(tmp_path: Path, model_type: str, name: str) -> None:
    checkpoint = Checkpoint.open(random_folder(tmp_path / "m", model_type, name, 0))
    if checkpoint.spec.reads is None:
        with pytest.raises(BadTask, match="input_ids and pixel_values, and no task has both"):
            synthetic_task([checkpoint], samples=3)
        return
    task = synthetic_task([checkpoint], samples=3, length=None if model_type == "vit" else 5)
    assert len(task) == 3
    stock_model(checkpoint, torch.float32)(**task.inputs)
    again = synthetic_task([checkpoint], samples=3, length=None if model_type == "vit" else 5)
    assert all(again.inputs[key].equal(x) for key, x in task.inputs.items())


def certain(folder: Path, step: int) -> Checkpoint:
    """A model that is all but sure that the next token is `step` after the last."""
    config = transformers.GPT2Config(
        n_embd=16, n_layer=1, n_head=1, vocab_size=16, n_positions=8, bos_token_id=0, eos_token_id=0,
        tie_word_embeddings=False,
    )  # fmt: skip
    model = random_model("GPT2LMHeadModel", config, 0)
    with torch.no_grad():
        for name, x in model.named_parameters():
            x.fill_(1.0 if name.endswith("ln_f.weight") else 0.0)
        model.transformer.wte.weight.copy_(100 * torch.eye(16))
        model.lm_head.weight.copy_(100 * torch.eye(16).roll(step, 0))
    model.save_pretrained(folder)
    return Checkpoint.open(folder)


def test_text_is_sampled_from_each_model_in_equal_shares(tmp_path: Path) -> None:
    models = [certain(tmp_path / "a", 1), certain(tmp_path / "b", 3)]
    task = synthetic_task(models, samples=5, length=8)
    steps = (task.labels - task.inputs["input_ids"]) % 16
    assert task.kind == LANGUAGE
    assert steps.tolist() == [[1] * 8] * 3 + [[3] * 8] * 2
    assert task.labels[:, :-1].equal(task.inputs["input_ids"][:, 1:])
    assert load_task("synthetic", *models, samples=5, length=8).labels.equal(task.labels)


def test_sampling_follows_the_whole_distribution_and_leaves_the_random_state_alone(tmp_path: Path) -> None:
    """A model with constant logits writes every token of 64 about equally often: nothing is cut off, nothing ends."""
    checkpoint = Checkpoint.open(gpt2(tmp_path / "m", vocabulary=64))
    flat = checkpoint.derive({x: (lambda x=x: torch.zeros_like(checkpoint[x])) for x in checkpoint})
    before = torch.get_rng_state()
    ids = synthetic_task([flat], samples=400, length=16).labels
    assert torch.get_rng_state().equal(before)
    expected = ids.numel() / 64
    chi = ((ids.flatten().bincount(minlength=64) - expected) ** 2 / expected).sum()
    assert chi < 63 + 5 * (2 * 63) ** 0.5
    assert not synthetic_task([flat], samples=400, length=16, seed=1).labels.equal(ids)


def test_words_keep_the_tokens_around_a_text(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(bert(tmp_path / "m"))
    ids = synthetic_task([checkpoint], samples=50).inputs["input_ids"]
    assert set(ids.unique().tolist()) == {2, 3, 4, 5}  # no padding, no unknown word


def test_leaves_have_edges_and_flat_regions(tmp_path: Path) -> None:
    """Neighbouring pixels are far more alike than in white noise, but now and then an edge lies between them."""
    picture = np.stack([dead_leaves(i, 0, 32, 32, 3) for i in range(20)]) / 255.0
    jumps = abs(np.diff(picture, axis=2))
    assert np.median(jumps) < 0.05 < 0.25 < np.quantile(jumps, 0.98)
    noise = abs(np.diff(np.random.default_rng(0).random(picture.shape), axis=2))
    assert np.median(noise) > 0.25
    task = synthetic_task([Checkpoint.open(vit(tmp_path / "m"))], samples=4)
    assert (task.labels == IGNORED).all()


def test_no_inputs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTask, match="No inputs"):
        synthetic_task([Checkpoint.open(gpt2(tmp_path / "m"))], samples=0)


def test_one_input_is_enough(tmp_path: Path) -> None:
    assert len(synthetic_task([Checkpoint.open(vit(tmp_path))], samples=1)) == 1


class Dice:
    """Numbers that were agreed on: a grey square in the middle, shaded from left to right."""

    def __init__(self) -> None:
        self.left = [0.9, 0.5, 0.5, 0.0, 0.5, 0.9, 0.5]  # size, place, tilt, stretch, a square, brightness

    def random(self, count: int | None = None) -> Any:
        return self.left.pop(0) if count is None else np.full(count, 0.5)

    def standard_normal(self, shape: Any) -> Any:
        return np.array([1.0, 0.0]) if shape == 2 else np.zeros(shape)


def test_a_leaf_is_shaded_evenly(monkeypatch):
    monkeypatch.setattr(synthetic, "LEAVES", 1)
    monkeypatch.setattr(np.random, "default_rng", lambda seed: Dice())
    picture = dead_leaves(0, 0, 64, 64, 3).astype(float)
    row = picture[32, 8:57, 0]  # inside the leaf
    assert abs(np.diff(row, 2)).max() <= 1
    assert abs(row[0] + row[-1] - 2 * row[24]) <= 1
    assert row[-1] - row[0] == pytest.approx(0.3 * 0.5 * 48 / 64 * 255, abs=1)
    assert np.ptp(picture[:, :4]) == 0  # beside it
