"""What stands between two models: all of it, alike from both sides, and nothing between models that agree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.classes import one_of_each_type
from helpers.folders import llama
from helpers.random_models import random_folder, rope
from helpers.task_files import gpt2, vit
from onebasin import Checkpoint
from onebasin.canonical.rewrites import untie
from onebasin.ensemble.compatibility import obstacles
from onebasin.ensemble.obstacle import Obstacle

BIAS = "model.layers.0.self_attn.k_proj.bias"
TIED = "tied embeddings: False | True, noted"
POSITIONS = "number of positions: 12 | 14, noted"


def said(a: Path, b: Path) -> list[str]:
    """From the other side it must be the same, with A and B exchanged."""
    models = [Checkpoint.open(folder) for folder in (a, b)]

    def line(x: Obstacle, here: object, there: object) -> str:
        return f"{x.what}: {here} | {there}, {'blocks' if x.blocks else 'noted'}"

    found = obstacles(*models)
    assert [(x.what, x.blocks) for x in obstacles(*reversed(models))] == [(x.what, x.blocks) for x in found]
    return [line(x, x.a, x.b) for x in found]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, []),
        ({"hidden_act": "relu"}, ["operations on layers.0.ffn: gated silu | gated relu, blocks"]),
        ({"attention_bias": True}, [f"tensors: {BIAS} absent | present, blocks"]),
        ({"tie_word_embeddings": True}, [TIED]),
        ({"tie_word_embeddings": True, "hidden_act": "relu"}, ["operations on layers.0.ffn", TIED]),
        ({"tie_word_embeddings": True, "attention_bias": True}, [f"tensors: {BIAS} absent | present, blocks", TIED]),
        ({"max_position_embeddings": 14}, [POSITIONS]),
        ({"vocab_size": 23}, ["length of a labelled axis of model.embed_tokens.weight: 17 | 23, blocks"]),
        ({**rope(77.0), "tie_word_embeddings": True, "max_position_embeddings": 14}, [POSITIONS, "rope", TIED]),
    ],
)
def test_every_difference_is_said_once(tmp_path, settings, expected):
    found = said(llama(tmp_path / "a"), llama(tmp_path / "b", **settings))
    assert [x if x in expected else x.partition(":")[0] for x in found] == expected


def test_learned_positions_are_cut_and_others_do_not_matter(tmp_path):
    short, long, picture = gpt2(tmp_path / "short"), gpt2(tmp_path / "long", positions=20), vit(tmp_path / "picture")
    assert said(long, short) == ["number of positions: 20 | 16, noted"]
    assert said(short, short) == said(picture, picture) == []
    rotary = llama(tmp_path / "a"), llama(tmp_path / "b", max_position_embeddings=14)
    learned, free = (obstacles(*map(Checkpoint.open, pair))[0].next_step for pair in ((long, short), rotary))
    assert learned.endswith("the longer table is cut, and all results have 16")
    assert free.endswith("no stored table depends on it, and a merged model says what A says")


@one_of_each_type()
def test_a_head_of_its_own_is_noted_and_nothing_else(tmp_path, model_type, name):
    for seed in range(2):
        model = Checkpoint.open(random_folder(tmp_path / str(seed), model_type, name, seed))
        assert [x.what for x in obstacles(model, untie(model))] == ["tied embeddings"] * model.spec.tied


def test_another_depth_blocks(tmp_path):
    found = said(llama(tmp_path / "a"), llama(tmp_path / "b", num_hidden_layers=2))
    assert found[0] == "number of layers: 1 | 2, blocks"


@pytest.mark.parametrize(("eps", "blocks"), [(0.25, "noted"), (0.0, "blocks")])
def test_sizes_are_said_in_full(tmp_path, eps, blocks):
    """A larger eps is a norm that can be widened; none at all is not."""
    (found,) = said(llama(tmp_path / "a"), llama(tmp_path / "b", rms_norm_eps=eps, intermediate_size=7))
    assert found.startswith("size or eps: residual 36, ")
    assert "12, eps 1e-06 | residual 36, " in found
    assert found.endswith(f"7, eps {eps:g}, {blocks}")


def test_tokens_in_another_order_are_noted(tmp_path):
    folders = llama(tmp_path / "a"), llama(tmp_path / "b")
    for folder, order in zip(folders, ("the cat sat", "the sat cat"), strict=True):
        (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(order.split())}))
    assert "order of tokens: 'cat' at 1 | 'cat' at 2, noted" in said(*folders)
