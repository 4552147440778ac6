"""Phi-3: a Llama that stores queries, keys and values one below the other, and gate and up as one tensor."""

from __future__ import annotations

from typing import Any

from onebasin.archs.grouped import Attend, Heads, head_width
from onebasin.archs.llama import like_llama
from onebasin.archs.registry import Config
from onebasin.archs.rotary import geometric, rope_constants, rotary_width
from onebasin.spec import Axis, Builder
from onebasin.spec.ops import gated, rope


def attention(l: Builder, cfg: Config, d: Axis, norm: str) -> None:
    """The rows of qkv_proj: all queries, then all keys, then all values."""
    heads = Heads(l, cfg, Attend(turn=rope(geometric(cfg)), rotated=rotary_width(cfg)))
    n, g, ov, width = heads.n, heads.g, heads.ov, head_width(cfg)
    first, rows = cfg.num_attention_heads * width, cfg.num_key_value_heads * width
    fused: dict[str, Any] = {"key": "self_attn.qkv_proj", "norm": norm, "bias": False, "d": d.co}
    queries, keys = [], []
    for part, qk in heads.parts:
        queries.append(l.linear(maps="d -> (n g k)", part=f"query{part}", n=n.perm, g=g.perm, k=qk, **fused))
        keys.append(l.linear(maps="d -> (n k)", part=f"key{part}", start=first, n=n.perm, k=qk.co, **fused))
    v = l.linear(maps="d -> (n k)", part="value", start=first + rows, n=n, k=ov, **fused)
    o = l.linear("self_attn.o_proj", "(n g k) -> d", bias=False, n=n.co, g=g.co, k=ov.co, d=d)
    l.attention("attention", queries=queries, keys=keys, value=v, output=o)


@like_llama("phi3", "Phi3", sizes=lambda cfg: {
    "v": cfg.vocab_size, "c": cfg.num_labels, "t": 2, "k": head_width(cfg),
})  # fmt: skip
def phi3(s: Builder, cfg: Config) -> None:
    s.constant("rope", rope_constants(cfg))
    s.constant("sliding window", cfg.sliding_window)
    d = s.space("residual", cfg.hidden_size)
    s.leaf("embed_tokens.weight", "v d", d=d)
    for l in s.layers("layers.{}", cfg.num_hidden_layers):
        attention(l, cfg, d, l.norm("rms", "input_layernorm", d, cfg.rms_norm_eps))
        f = l.space("ffn", cfg.intermediate_size, gated(cfg.hidden_act))
        ln = l.norm("rms", "post_attention_layernorm", d, cfg.rms_norm_eps)
        fused: dict[str, Any] = {"norm": ln, "bias": False, "d": d.co}
        l.linear("mlp.gate_up_proj", "d -> (t f)", part="gate", t=0, f=f.perm, **fused)
        l.linear("mlp.gate_up_proj", "d -> (t f)", part="up", t=1, f=f, **fused)
        l.linear("mlp.down_proj", "f -> d", bias=False, f=f.co, d=d)
    ln = s.norm("rms", "norm", d, cfg.rms_norm_eps, blocked=s.final_block("embed_tokens.weight"))
    s.readout(d, ln, "embed_tokens.weight")
