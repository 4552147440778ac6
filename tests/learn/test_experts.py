"""Mixtures learn: gradients reach the maps of stream, heads and expert units, and the moved model is the same."""

from __future__ import annotations

import pytest
import transformers

from helpers import learning
from helpers.learning import run, write
from onebasin.moving.stacks import group_of
from onebasin.verification.certificate import certificate

NAME = "Qwen2MoeForCausalLM"
CONFIG = transformers.Qwen2MoeConfig(
    hidden_size=16, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, vocab_size=17,
    moe_intermediate_size=8, shared_expert_intermediate_size=8, max_position_embeddings=12, num_experts=4,
    num_experts_per_tok=2, tie_word_embeddings=False,
)  # fmt: skip


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_mixture_learns_and_stays_the_same_function(tmp_path, monkeypatch, checkpointing):
    monkeypatch.setitem(learning.TINY, NAME, CONFIG)
    write(tmp_path, NAME, 2)
    options = {"learn": ("residual", "ov", "units"), "steps": 20, "checkpointing": checkpointing}
    found = run(tmp_path, NAME, None, **options)
    spec, moved = found.ensemble.spec, found.alignments[1].displacement()
    assert group_of(spec, "layers.0.expert_ffn") == "units"
    assert group_of(spec, "layers.0.ov") == "ov"
    assert min(moved[name] for name in ("residual", "layers.0.ov", "layers.0.expert_ffn")) > 1e-3
    assert certificate(found)["output_drift"]["float64"] < 1e-9
