"""What ViT and BERT share: attention and FFN as plain linear maps, and the pooler."""

from __future__ import annotations

from typing import Any

from onebasin.archs.registry import Config
from onebasin.spec import Axis, Builder
from onebasin.spec.ops import bilinear, elementwise, head_sum


def attention(l: Builder, cfg: Config, d: Axis, *, norm: str, inner: str, output: str, qkv_bias: bool = True) -> None:
    """h heads of width k with separate query, key and value maps; absolute positions."""
    width = cfg.hidden_size // cfg.num_attention_heads
    h = l.space("heads", cfg.num_attention_heads, head_sum())
    qk = l.space("qk", width, bilinear(), base=h)
    ov = l.space("ov", width, base=h)
    reads: dict[str, Any] = {"maps": "d -> (h k)", "norm": norm, "bias": qkv_bias, "d": d.co}
    q = l.linear(f"{inner}.query", h=h.perm, k=qk, **reads)
    k = l.linear(f"{inner}.key", h=h.perm, k=qk.co, **reads)
    v = l.linear(f"{inner}.value", h=h, k=ov, **reads)
    o = l.linear(output, "(h k) -> d", h=h.co, k=ov.co, d=d)
    l.attention("attention", queries=[q], keys=[k], value=v, output=o)


def feed_forward(l: Builder, cfg: Config, d: Axis, *, norm: str) -> None:
    f = l.space("ffn", cfg.intermediate_size, elementwise(cfg.hidden_act))
    l.linear("intermediate.dense", "d -> f", norm=norm, d=d.co, f=f)
    l.linear("output.dense", "f -> d", f=f.co, d=d)


def pooler(s: Builder, d: Axis, *, norm: str, size: int, activation: str, optional: bool) -> Axis:
    """The first token's state through one more layer; some bare models are saved without it."""
    e = s.space("pooler", size, elementwise(activation))
    s.linear("pooler.dense", "d -> e", norm=norm, optional=optional, d=d.co, e=e)
    return e
