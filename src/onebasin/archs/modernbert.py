"""ModernBERT: pre-LayerNorm encoder with a gated FFN, fused maps, rotary positions, and windows in most layers.

The norm behind the embedding writes the stream with its gain, and the first layer has no norm of its own.
"""

from __future__ import annotations

from typing import Any

from onebasin.archs.encoder import ON_SKIP, labels, masked_lm, transform
from onebasin.archs.registry import FIELDS, Config, architecture
from onebasin.archs.rotary import before_5, check_read, is_geometric
from onebasin.spec import Axis, Builder, Head, Tokens
from onebasin.spec.ops import bilinear, gated, head_sum, rope

WORDS = "embeddings.tok_embeddings.weight"


def _positions(cfg: Config) -> list[dict[str, Any]]:
    """What the rotary frequencies of every layer follow from."""
    written = getattr(cfg, "rope_parameters", None) or {}
    types = getattr(cfg, "layer_types", None) or []
    if not before_5():
        return [written[kind] for kind in types]
    kinds = ["sliding_attention" if i % cfg.global_attn_every_n_layers else "full_attention"
             for i in range(cfg.num_hidden_layers)]  # fmt: skip
    thetas = {"full_attention": cfg.global_rope_theta, "sliding_attention": cfg.local_rope_theta}
    read = {kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in thetas.items()}
    check_read({**written, "layer_types": types or kinds}, {**read, "layer_types": kinds})
    return [read[kind] for kind in kinds]


@architecture(
    "modernbert",
    prefix="model.",
    heads={
        "ModernBertModel": Head(),
        "ModernBertForMaskedLM": Head("decoder", vocabulary=True),
        "ModernBertForSequenceClassification": Head("classifier", bias=True, pooled=True),
        "ModernBertForTokenClassification": Head("classifier", bias=True),
    },
    inputs=lambda cfg: Tokens(cfg.vocab_size, cfg.max_position_embeddings),
    sizes=lambda cfg: {"v": cfg.vocab_size, "c": cfg.num_labels, "t": 3, "u": 2},
    fields={**FIELDS, "eps": "norm_eps"},
)
def modernbert(s: Builder, cfg: Config) -> None:
    eps, offset, positions = cfg.norm_eps, cfg.norm_bias, _positions(cfg)
    s.constant("rope", positions)
    s.constant("layers with a window", (getattr(cfg, "layer_types", None), cfg.local_attention))
    d = s.space("residual", cfg.hidden_size)
    s.leaf(WORDS, "v d", d=d)
    ln = s.norm("layer", "embeddings.norm", d, eps, bias=offset, blocked=ON_SKIP)
    for i, l in enumerate(s.layers("layers.{}", cfg.num_hidden_layers)):
        if i:
            ln = l.norm("layer", "attn_norm", d, eps, bias=offset)
        attention(l, cfg, d, norm=ln, geometric=is_geometric(positions[i]))
        ln = l.norm("layer", "mlp_norm", d, eps, bias=offset)
        f = l.space("ffn", cfg.intermediate_size, gated(cfg.hidden_activation))
        fused: dict[str, Any] = {"maps": "d -> (u f)", "norm": ln, "bias": cfg.mlp_bias, "d": d.co}
        l.linear("mlp.Wi", part="gate", u=0, f=f.perm, **fused)
        l.linear("mlp.Wi", part="up", u=1, f=f, **fused)
        l.linear("mlp.Wo", "f -> d", bias=cfg.mlp_bias, f=f.co, d=d)
    ln = s.norm("layer", "final_norm", d, eps, bias=offset, blocked=None if s.head.key else s.final_block(""))
    read_head(s, cfg, d, ln)


def attention(l: Builder, cfg: Config, d: Axis, *, norm: str, geometric: bool) -> None:
    width, bias = cfg.hidden_size // cfg.num_attention_heads, cfg.attention_bias
    h = l.space("heads", cfg.num_attention_heads, head_sum())
    qk = l.space("qk", width, bilinear(), rope(geometric), base=h)
    ov = l.space("ov", width, base=h)
    fused: dict[str, Any] = {"maps": "d -> (t h k)", "norm": norm, "bias": bias, "d": d.co}
    q = l.linear("attn.Wqkv", part="query", t=0, h=h.perm, k=qk, **fused)
    k = l.linear("attn.Wqkv", part="key", t=1, h=h.perm, k=qk.co, **fused)
    v = l.linear("attn.Wqkv", part="value", t=2, h=h, k=ov, **fused)
    o = l.linear("attn.Wo", "(h k) -> d", bias=bias, h=h.co, k=ov.co, d=d)
    l.attention("attention", queries=[q], keys=[k], value=v, output=o)


def read_head(s: Builder, cfg: Config, d: Axis, ln: str) -> None:
    """Every head has a layer of its own before its last map."""
    layer: dict[str, Any] = {
        "norm": ln, "activation": cfg.classifier_activation, "eps": cfg.norm_eps, "names": ("head.dense", "head.norm"),
        "bias": cfg.classifier_bias, "offset": cfg.norm_bias,
    }  # fmt: skip
    if s.head.vocabulary:
        masked_lm(s, d, d, embedding=WORDS, decoder="decoder", decoder_bias=cfg.decoder_bias, **layer)
    elif s.head.key is not None:
        if s.head.pooled:
            s.constant("pooling", cfg.classifier_pooling)
        e = s.space("head", cfg.hidden_size)
        labels(s, e, transform(s, e, d, **layer))
    else:
        s.readout(d, ln, "")
