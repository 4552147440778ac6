"""Which layers have experts: as transformers builds them, and the same layers when some are taken out."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
import transformers

from onebasin.archs.mixture import is_sparse, keep_sparse

SMALL = {
    "hidden_size": 8, "intermediate_size": 8, "moe_intermediate_size": 4, "num_attention_heads": 2, "vocab_size": 8,
    "num_key_value_heads": 1, "head_dim": 4, "num_experts_per_tok": 1, "num_hidden_layers": 5,
}  # fmt: skip


def sparse(config) -> list[bool]:
    return [is_sparse(config, i) for i in range(config.num_hidden_layers)]


@pytest.mark.parametrize("plain", [[], [0, 3]])
@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 4])
def test_layers_have_experts_where_transformers_puts_them(count, step, plain):
    config = transformers.Qwen3MoeConfig(**SMALL, num_experts=count, decoder_sparse_step=step, mlp_only_layers=plain)
    with torch.device("meta"):
        built = transformers.Qwen3MoeModel(config)
    assert sparse(config) == [hasattr(layer.mlp, "experts") for layer in built.layers]
    some = [4, 1, 2]
    fewer = deepcopy(config)
    keep_sparse(fewer, some)
    assert sparse(fewer) == [sparse(config)[old] for old in some]


def test_where_a_release_says_nothing_every_layer_has_experts():
    config = transformers.MixtralConfig(num_hidden_layers=3, num_local_experts=2)
    assert sparse(config) == [True] * 3
    keep_sparse(config, [2, 0])
    assert sparse(config) == [True] * 2
