"""Matching attention never forms a D × D matrix for each head."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import GPT2Config, LlamaConfig

from helpers.random_models import random_model
from onebasin import Checkpoint, canonicalize
from onebasin.linalg.workers import Workers
from onebasin.match.ascent import Ascent
from onebasin.match.options import WeightMatching
from onebasin.match.pages import Pages
from onebasin.match.pair import Pair
from onebasin.match.strategy import Strategy

WIDTH, HEADS = 64, 16
MODELS = {
    "GPT2LMHeadModel": GPT2Config(
        n_embd=WIDTH, n_head=HEADS, n_layer=1, n_inner=8, vocab_size=17, n_positions=8, bos_token_id=0, eos_token_id=0
    ),
    "LlamaForCausalLM": LlamaConfig(
        hidden_size=WIDTH, num_attention_heads=HEADS, num_key_value_heads=4, num_hidden_layers=1, intermediate_size=8,
        vocab_size=17, max_position_embeddings=8,
    ),
}  # fmt: skip


class Largest(TorchDispatchMode):
    """The most memory behind any one tensor that was made, in float64 numbers."""

    numbers = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        sizes = [x.untyped_storage().nbytes() / 8 for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
        self.numbers = max(self.numbers, *sizes, 0.0)
        return out


@pytest.mark.parametrize("name", MODELS)
def test_no_matrix_of_full_width_for_each_head(tmp_path, name):
    for seed in (0, 1):
        random_model(name, MODELS[name], seed).save_pretrained(tmp_path / str(seed))
    pair = Pair.of(*(canonicalize(Checkpoint.open(tmp_path / str(seed))).checkpoint for seed in (0, 1)))
    ascent = Ascent(Pages.whole(pair), WeightMatching(), Strategy(), Workers())
    with Largest() as made:
        for names in ascent.pages.names:
            ascent.match_heads(names, guard=False)
    assert made.numbers < 4 * WIDTH**2


def test_the_measure_sees_such_matrices():
    factors = torch.randn(2, HEADS, WIDTH // HEADS, WIDTH, dtype=torch.float64)
    with Largest() as made:
        torch.einsum("hkx,hky->hxy", *factors)
    assert made.numbers >= HEADS * WIDTH**2
