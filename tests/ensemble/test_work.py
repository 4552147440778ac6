"""How long a run is said to take: what is counted, by hand for a small model, and the estimate beside real runs."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
import torch
import transformers

from helpers.pages import ROOT
from helpers.random_models import random_model
from onebasin import Checkpoint, canonicalize
from onebasin.ensemble import work
from onebasin.ensemble.work import Load, certificate, learning_step, looking, matching, reading, sweep, writing
from onebasin.methods.auto import Auto
from onebasin.methods.learned import Learned
from onebasin.methods.method import Inputs
from onebasin.methods.weight import Weight
from onebasin.processes import speed
from onebasin.processes.speed import Speed, cpu_speed, speed_here

D, F, V, HEADS, L = 8, 20, 11, 2, 3
INSIDE, UNITS, WORDS = 4 * D * D, 3 * F * D, 2 * V * D  # numbers of a layer's attention, of its units; and of words
SPEED = Speed(exact=2.0, running=4.0, memory=8.0, file=16.0)


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    config = transformers.LlamaConfig(
        hidden_size=D, num_hidden_layers=L, num_attention_heads=HEADS, num_key_value_heads=HEADS, intermediate_size=F,
        vocab_size=V, max_position_embeddings=12, tie_word_embeddings=False,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("model")
    random_model("LlamaForCausalLM", config, 0).save_pretrained(folder)
    return canonicalize(Checkpoint.open(folder)).checkpoint.spec


def test_the_products_of_a_sweep_are_counted(spec):
    """B is turned and joined with A in the stream; all units, and all directions, meet; then one polar factor."""
    streams = 2 * 2 * D * (L * (INSIDE + UNITS) + WORDS)
    pairs = 2 * L * (UNITS * F + INSIDE * D)
    assert sweep(spec).exact == streams + pairs + work.POLAR * D**3
    assert sweep(spec).core == pytest.approx(work.ASSIGNMENT * L * F**2 + (2 * L + 1) * work.PAGE)
    insides = L * HEADS * (2 * (D // HEADS) ** 3 + 1)  # queries and keys, values and outputs; one query a head
    assert matching(spec, 4).exact == 5 * sweep(spec).exact + work.INSIDE * insides


def test_steps_of_learning_and_looks_at_activations_are_counted(spec):
    turned = 2 * D * (L * (INSIDE + UNITS) + WORDS)
    numbers = L * (INSIDE + UNITS) + WORDS + (2 * L + 1) * D
    assert learning_step(spec, 100).running == 2 * turned + 6 * 100 * numbers
    assert learning_step(spec, 100, moves=2, again=True).running == 3 * 2 * turned + 8 * 100 * numbers
    assert looking(spec, 100).running == 2 * 2 * 100 * numbers
    assert looking(spec, 100).exact == 2 * 100 * (L * F**2 + (2 * L + 1) * D**2)


def test_what_is_moved_again_and_again_is_large(spec, monkeypatch):
    once = certificate(spec).exact, writing(spec, 10).exact
    monkeypatch.setattr(work, "SMALL", 0)
    moved = 2 * D * (L * (INSIDE + UNITS) + WORDS)
    assert certificate(spec).exact == once[0] + (work.MOVED - 1) * moved
    assert (once[1], writing(spec, 10).exact) == (0, moved)
    assert writing(spec, 10).file == 10


def test_texts_are_as_long_as_they_are_and_pictures_have_patches(spec, tmp_path):
    assert work.tokens_of(spec, 77) == 77
    config = transformers.ViTConfig(
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        image_size=(12, 20),
        patch_size=4,
    )
    random_model("ViTModel", config, 0).save_pretrained(tmp_path)
    assert work.tokens_of(Checkpoint.open(tmp_path).spec, 77) == 3 * 5


def test_loads_add_up_to_seconds():
    load = Load(exact=2, running=4, memory=8, file=16, core=5) + Load(core=1) * 2
    assert load.seconds(SPEED) == 1 + 1 + 1 + 1 + 7
    assert reading(32).seconds(SPEED) == pytest.approx(32 / 16 + 64 / 8 + work.MODEL)


def test_methods_name_their_stages(spec):
    assert list(Weight(sweeps=2).stages(spec, None)) == ["matching"]
    inputs = Inputs(1000, 10)
    assert list(Learned().stages(spec, inputs)) == ["activations", "learning"]
    assert list(Auto().stages(spec, None)) == ["matching", "activations", "learning"]
    short, long = (Learned(steps=n).stages(spec, inputs)["learning"].seconds(SPEED) for n in (100, 200))
    assert 1.9 < long / short < 2.1


def test_the_speed_of_this_machine_is_measured(tmp_path):
    (tmp_path / "file").write_bytes(bytes(2**20))
    for found in (cpu_speed(tmp_path / "file"), speed_here(torch.device("cpu"), tmp_path / "file")):
        assert all(getattr(found, x.name) > 1e6 for x in fields(found))


def test_the_best_of_some_turns_counts_until_it_is_finished():
    times = iter([0.0, 9.0, 10.0, 15.0, 20.0, 22.0, 30.0, 33.0])  # the first turn warms up
    done = []
    assert speed._least(lambda: done.append("work"), lambda: next(times), lambda: done.append("finish")) == 2.0
    assert done == ["work", "finish"] * 4


def test_what_was_foretold_was_near_to_what_runs_took():
    """Of three sizes, by a factor of two in all."""
    found = json.loads((ROOT / "benchmarks" / "results" / "foretold.json").read_text())["results"]
    rows = [row for row in found.values() if isinstance(row, dict)]
    assert len(rows) == 3
    assert all(0.5 <= row["ratio"] <= 2 for row in rows)
    for row in rows:
        foretold, taken = (sum(pair[i] for pair in row["foretold, taken"].values()) for i in (0, 1))
        assert foretold / taken == pytest.approx(row["ratio"], abs=0.02)
