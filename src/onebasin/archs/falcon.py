"""Falcon: queries of a group, its key and its value lie together; rotary positions or ALiBi; blocks one by one or side
by side, behind one norm or two."""

from __future__ import annotations

from typing import Any

from onebasin.archs.plain import ffn
from onebasin.archs.registry import Config, architecture
from onebasin.archs.rotary import geometric, rope_constants
from onebasin.spec import Axis, Builder, Head, Tokens
from onebasin.spec.ops import bilinear, head_slopes, head_sum, rope


def groups(cfg: Config) -> int:
    """How many key/value heads there are."""
    if cfg.new_decoder_architecture:
        return int(cfg.num_kv_heads)
    return 1 if cfg.multi_query else int(cfg.num_attention_heads)


@architecture(
    "falcon",
    prefix="transformer.",
    heads={
        "FalconModel": Head(),
        "FalconForCausalLM": Head("lm_head", vocabulary=True),
        "FalconForSequenceClassification": Head("score"),
        "FalconForTokenClassification": Head("classifier", bias=True),
    },
    inputs=lambda cfg: Tokens(cfg.vocab_size, cfg.max_position_embeddings),
    sizes=lambda cfg: {"v": cfg.vocab_size, "c": cfg.num_labels, "s": cfg.num_attention_heads // groups(cfg) + 2},
    fields={
        "residual": "hidden_size", "heads": "num_attention_heads", "kv_heads": "num_kv_heads",
        "ffn": "ffn_hidden_size", "eps": "layer_norm_epsilon",
    },
    untouched=(r"rotary_emb\.inv_freq$",),
)  # fmt: skip
def falcon(s: Builder, cfg: Config) -> None:
    eps, two = cfg.layer_norm_epsilon, cfg.new_decoder_architecture and cfg.num_ln_in_parallel_attn in (None, 2)
    s.constant("layout of blocks", (cfg.new_decoder_architecture, cfg.multi_query, cfg.parallel_attn, two))
    width = cfg.hidden_size // cfg.num_attention_heads
    s.constant("positions", {"slopes of heads this wide": width} if cfg.alibi else rope_constants(cfg))
    d = s.space("residual", cfg.hidden_size)
    s.leaf("word_embeddings.weight", "v d", d=d)
    for l in s.layers("h.{}", cfg.num_hidden_layers):
        ln = l.norm("layer", "ln_attn" if two else "input_layernorm", d, eps)
        attention(l, cfg, d, ln)
        if two:
            ln = l.norm("layer", "ln_mlp", d, eps)
        elif not cfg.parallel_attn:
            ln = l.norm("layer", "post_attention_layernorm", d, eps)
        names = "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"
        ffn(l, d, norm=ln, names=names, size=cfg.ffn_hidden_size, activation=cfg.activation, bias=cfg.bias)
    ln = s.norm("layer", "ln_f", d, eps, blocked=s.final_block("word_embeddings.weight"))
    s.readout(d, ln, "word_embeddings.weight")


def attention(l: Builder, cfg: Config, d: Axis, norm: str) -> None:
    """Each of n groups stores its g queries, then its key, then its value.  ALiBi labels all heads."""
    width, queries = cfg.hidden_size // cfg.num_attention_heads, cfg.num_attention_heads // groups(cfg)
    labels = (head_slopes(),) if cfg.alibi else ()
    turn = () if cfg.alibi else (rope(geometric(cfg)),)
    n = l.space("kv_heads", groups(cfg), head_sum(), *labels)
    g = l.space("queries", queries, head_sum(), *labels, base=n)
    qk, ov = l.space("qk", width, bilinear(), *turn, base=n), l.space("ov", width, base=n)
    fused: dict[str, Any] = {"maps": "d -> (n s k)", "norm": norm, "bias": cfg.bias, "d": d.co}
    q = l.linear("self_attention.query_key_value", part="query", n=n.perm, s=g.perm, k=qk, **fused)
    k = l.linear("self_attention.query_key_value", part="key", s=queries, n=n.perm, k=qk.co, **fused)
    v = l.linear("self_attention.query_key_value", part="value", s=queries + 1, n=n, k=ov, **fused)
    o = l.linear("self_attention.dense", "(n g k) -> d", bias=cfg.bias, n=n.co, g=g.co, k=ov.co, d=d)
    l.attention("attention", queries=[q], keys=[k], value=v, output=o)
