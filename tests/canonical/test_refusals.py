"""Rewrites that cannot be exact refuse, and say why."""

from __future__ import annotations

import pytest
import torch

from helpers.exactness import EXACT, drift
from helpers.rewriting import fold_gain, refusal
from onebasin import canonicalize
from onebasin.canonical import biases, rewrites


def test_a_gain_that_cannot_move_is_refused_with_the_reason(make):
    for model_type, name, norm, why in (
        ("bert", "BertForTokenClassification", "bert.embeddings.LayerNorm", "skip path"),
        ("gpt2", "GPT2Model", "ln_f", "no linear map follows"),
        ("gpt2", "GPT2LMHeadModel", "transformer.ln_f", "tied to transformer.wte.weight"),
    ):
        error = refusal(fold_gain, make(model_type, name, tied=True), norm)
        assert (error.tensor, error.space) == (f"{norm}.weight", "residual")
        assert why in error.found


def test_a_value_bias_without_an_output_bias_stays(make):
    original = make("qwen2", "Qwen2ForCausalLM")
    error = refusal(biases.fold_value_bias, original, *value_and_output("model.layers.0.self_attn"))
    assert error.tensor == "model.layers.0.self_attn.v_proj.bias"
    form = canonicalize(original).checkpoint
    assert torch.equal(form["model.layers.0.self_attn.v_proj.bias"], original["model.layers.0.self_attn.v_proj.bias"])


def test_a_value_bias_with_an_output_bias_moves(make):
    original = make("llama", "LlamaForCausalLM")  # grouped heads share it
    folded = biases.fold_value_bias(original, *value_and_output("model.layers.0.self_attn"))
    assert not folded["model.layers.0.self_attn.v_proj.bias"].any()
    assert drift(original, folded) < EXACT


def value_and_output(attention: str) -> tuple[str, str]:
    return f"{attention}.v_proj", f"{attention}.o_proj"


@pytest.mark.parametrize(
    ("model_type", "name", "key", "space", "operation"),
    [
        ("llama", "LlamaForCausalLM", "model.layers.0.self_attn.k_proj", "layers.0.qk", "rotary positions"),
        ("qwen2", "Qwen2ForCausalLM", "model.layers.0.self_attn.k_proj", "layers.0.qk", "rotary positions"),
        ("qwen3", "Qwen3ForCausalLM", "model.layers.0.self_attn.k_proj", "layers.0.qk", "rotary positions"),
        ("gpt_neox", "GPTNeoXForCausalLM", "gpt_neox.layers.0.attention.query_key_value:key_rotary",
         "layers.0.qk_rotary", "rotary positions"),
    ],
)  # fmt: skip
def test_the_key_bias_stays_under_rotary_positions(make, model_type, name, key, space, operation):
    error = refusal(biases.drop_key_bias, make(model_type, name), key)
    assert error.tensor.startswith(key.split(":")[0])
    assert (error.space, error.found) == (space, operation)


def test_the_key_bias_goes_where_nothing_is_rotated(make):
    original = make("gpt_neox", "GPTNeoXForCausalLM")
    bias = "gpt_neox.layers.0.attention.query_key_value.bias"
    form = canonicalize(original).checkpoint
    assert original[f"{bias}:key_pass"].any()
    assert not form[f"{bias}:key_pass"].any()
    assert form[f"{bias}:key_rotary"].any()


def test_centring_is_refused_where_something_else_sees_the_mean(make):
    assert refusal(rewrites.centre, make("llama", "LlamaForCausalLM"), "residual").found == "no LayerNorm"
    assert "tied" in refusal(rewrites.centre, make("gpt2", "GPT2LMHeadModel", tied=True), "residual").found
    assert "gelu" in refusal(rewrites.centre, make("bert", "BertForMaskedLM", tied=True), "residual").found


def test_projecting_is_refused_unless_the_readers_see_mean_zero(make):
    gpt2, llama = make("gpt2", "GPT2LMHeadModel", 5), make("llama", "LlamaForCausalLM")
    refusal(rewrites.project, gpt2, "transformer.h.0.ln_1")  # not folded
    refusal(rewrites.project, fold_gain(gpt2, "transformer.ln_f"), "transformer.ln_f")  # keeps its bias
    refusal(rewrites.project, fold_gain(llama, "model.norm"), "model.norm")  # not a LayerNorm
    refusal(rewrites.project, make("bert", "BertModel"), "embeddings.LayerNorm")  # on the skip path
