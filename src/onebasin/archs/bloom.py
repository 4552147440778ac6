"""BLOOM: ALiBi instead of positions, which labels the heads; the LayerNorm of the embedding writes the stream."""

from __future__ import annotations

from typing import Any

from onebasin.archs.encoder import ON_SKIP
from onebasin.archs.plain import ffn
from onebasin.archs.registry import Config, architecture
from onebasin.spec import Axis, Builder, Head, Tokens
from onebasin.spec.ops import bilinear, head_slopes, head_sum

EMBEDDED = "its output is the stream, which has no linear map that could take the gain"


@architecture(
    "bloom",
    prefix="transformer.",
    heads={
        "BloomModel": Head(),
        "BloomForCausalLM": Head("lm_head", vocabulary=True),
        "BloomForSequenceClassification": Head("score"),
        "BloomForTokenClassification": Head("classifier", bias=True),
    },
    inputs=lambda cfg: Tokens(cfg.vocab_size, getattr(cfg, "seq_length", 2048)),
    sizes=lambda cfg: {"v": cfg.vocab_size, "c": cfg.num_labels, "t": 3},
    fields={"residual": "hidden_size", "heads": "n_head", "eps": "layer_norm_epsilon"},
)
def bloom(s: Builder, cfg: Config) -> None:
    eps, post = cfg.layer_norm_epsilon, cfg.apply_residual_connection_post_layernorm
    s.constant("skip path behind the norms", post)
    d = s.space("residual", cfg.hidden_size)
    s.leaf("word_embeddings.weight", "v d", d=d)
    s.norm("layer", "word_embeddings_layernorm", d, eps, blocked=EMBEDDED)
    blocked = ON_SKIP if post else None
    for l in s.layers("h.{}", cfg.n_layer):
        attention(l, cfg, d, l.norm("layer", "input_layernorm", d, eps, blocked=blocked))
        ln = l.norm("layer", "post_attention_layernorm", d, eps, blocked=blocked)
        names = "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"
        ffn(l, d, norm=ln, names=names, size=4 * cfg.hidden_size, activation="gelu")
    ln = s.norm("layer", "ln_f", d, eps, blocked=s.final_block("word_embeddings.weight"))
    s.readout(d, ln, "word_embeddings.weight")


def attention(l: Builder, cfg: Config, d: Axis, norm: str) -> None:
    """Queries, keys and values fused head by head."""
    width = cfg.hidden_size // cfg.n_head
    h = l.space("heads", cfg.n_head, head_sum(), head_slopes())
    qk, ov = l.space("qk", width, bilinear(), base=h), l.space("ov", width, base=h)
    fused: dict[str, Any] = {"key": "self_attention.query_key_value", "maps": "d -> (h t k)", "norm": norm, "d": d.co}
    q = l.linear(part="query", t=0, h=h.perm, k=qk, **fused)
    k = l.linear(part="key", t=1, h=h.perm, k=qk.co, **fused)
    v = l.linear(part="value", t=2, h=h, k=ov, **fused)
    o = l.linear("self_attention.dense", "(h k) -> d", h=h.co, k=ov.co, d=d)
    l.attention("attention", queries=[q], keys=[k], value=v, output=o)
