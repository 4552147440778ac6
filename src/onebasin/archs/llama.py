"""Llama and its relatives: RMSNorm, rotary positions, grouped key/value heads, gated FFN.

Mistral differs in nothing here; Qwen2 has query/key/value biases; Qwen3 normalises queries and keys inside each head
and has a head width of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onebasin.archs.registry import GROUPED, Config, Declaration, architecture
from onebasin.archs.rotary import geometric, rope_constants
from onebasin.spec import Axis, Builder, Head, Tokens
from onebasin.spec.ops import bilinear, gain_product, gated, head_sum, qk_norm, rope


def grouped_attention(l: Builder, cfg: Config, d: Axis, *, qkv_bias: bool, o_bias: bool, normed: bool) -> None:
    """n key/value heads of width k, each serving g query heads; one inside-head map per key/value head."""
    queries, n_kv = cfg.num_attention_heads, cfg.num_key_value_heads or cfg.num_attention_heads
    width = getattr(cfg, "head_dim", None) or cfg.hidden_size // queries
    n = l.space("kv_heads", n_kv, head_sum())
    g = l.space("queries", queries // n_kv, head_sum(), base=n)
    qk = l.space("qk", width, bilinear(), rope(geometric(cfg)), *([qk_norm()] if normed else []), base=n)
    ov = l.space("ov", width, base=n)
    ln = l.norm("rms", "input_layernorm", d, cfg.rms_norm_eps)
    reads: dict[str, Any] = {"norm": ln, "bias": qkv_bias, "d": d.co}
    q = l.linear("self_attn.q_proj", "d -> (n g k)", n=n.perm, g=g.perm, k=qk, **reads)
    k = l.linear("self_attn.k_proj", "d -> (n k)", n=n.perm, k=qk.co, **reads)
    v = l.linear("self_attn.v_proj", "d -> (n k)", n=n, k=ov, **reads)
    o = l.linear("self_attn.o_proj", "(n g k) -> d", bias=o_bias, n=n.co, g=g.co, k=ov.co, d=d)
    l.attention("attention", queries=[q], keys=[k], value=v, output=o)
    if normed:
        l.constant("eps of query/key norms", cfg.rms_norm_eps)
        gain = l.space("qk_gain", width, gain_product(), rope(geometric(cfg)))
        l.leaf("self_attn.q_norm.weight", "k", k=gain)
        l.leaf("self_attn.k_norm.weight", "k", k=gain.co)


def decoder(s: Builder, cfg: Config, *, qkv_bias: bool, o_bias: bool, mlp_bias: bool, normed: bool = False) -> None:
    s.constant("rope", rope_constants(cfg))
    s.constant("sliding window", (getattr(cfg, "sliding_window", None), getattr(cfg, "layer_types", None)))
    d = s.space("residual", cfg.hidden_size)
    s.leaf("embed_tokens.weight", "v d", d=d)
    for l in s.layers("layers.{}", cfg.num_hidden_layers):
        grouped_attention(l, cfg, d, qkv_bias=qkv_bias, o_bias=o_bias, normed=normed)
        f = l.space("ffn", cfg.intermediate_size, gated(cfg.hidden_act))
        ln = l.norm("rms", "post_attention_layernorm", d, cfg.rms_norm_eps)
        l.linear("mlp.gate_proj", "d -> f", norm=ln, bias=mlp_bias, d=d.co, f=f.perm)
        l.linear("mlp.up_proj", "d -> f", norm=ln, bias=mlp_bias, d=d.co, f=f)
        l.linear("mlp.down_proj", "f -> d", bias=mlp_bias, f=f.co, d=d)
    ln = s.norm("rms", "norm", d, cfg.rms_norm_eps, blocked=s.final_block("embed_tokens.weight"))
    s.readout(d, ln, "embed_tokens.weight")


def _like_llama(model_type: str, name: str) -> Callable[[Declaration], Declaration]:
    return architecture(
        model_type,
        prefix="model.",
        heads={
            f"{name}Model": Head(),
            f"{name}ForCausalLM": Head("lm_head", vocabulary=True),
            f"{name}ForSequenceClassification": Head("score"),
            f"{name}ForTokenClassification": Head("score", bias=True),
        },
        inputs=lambda cfg: Tokens(cfg.vocab_size, cfg.max_position_embeddings),
        sizes=lambda cfg: {"v": cfg.vocab_size, "c": cfg.num_labels},
        fields={**GROUPED, "head": "head_dim", "eps": "rms_norm_eps"},
        untouched=(r"rotary_emb\.inv_freq$",),
    )


@_like_llama("llama", "Llama")
def llama(s: Builder, cfg: Config) -> None:
    decoder(s, cfg, qkv_bias=cfg.attention_bias, o_bias=cfg.attention_bias, mlp_bias=cfg.mlp_bias)


@_like_llama("mistral", "Mistral")
def mistral(s: Builder, cfg: Config) -> None:
    decoder(s, cfg, qkv_bias=False, o_bias=False, mlp_bias=False)


@_like_llama("qwen2", "Qwen2")
def qwen2(s: Builder, cfg: Config) -> None:
    decoder(s, cfg, qkv_bias=True, o_bias=False, mlp_bias=False)


@_like_llama("qwen3", "Qwen3")
def qwen3(s: Builder, cfg: Config) -> None:
    decoder(s, cfg, qkv_bias=cfg.attention_bias, o_bias=cfg.attention_bias, mlp_bias=False, normed=True)
