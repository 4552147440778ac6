"""GPT-NeoX and Pythia: parallel residual, rotary positions on part of each head, query/key/value fused per head."""

from __future__ import annotations

from typing import Any

from onebasin.archs.registry import FIELDS, Config, architecture
from onebasin.archs.rotary import geometric, rope_constants, rotary_width
from onebasin.spec import Builder, Head, Tokens
from onebasin.spec.ops import bilinear, elementwise, head_sum, rope


@architecture(
    "gpt_neox",
    prefix="gpt_neox.",
    heads={
        "GPTNeoXModel": Head(),
        "GPTNeoXForCausalLM": Head("embed_out", vocabulary=True),
        "GPTNeoXForSequenceClassification": Head("score"),
        "GPTNeoXForTokenClassification": Head("classifier", bias=True),
    },
    inputs=lambda cfg: Tokens(cfg.vocab_size, cfg.max_position_embeddings),
    sizes=lambda cfg: {
        "v": cfg.vocab_size, "c": cfg.num_labels, "t": 3, "k": cfg.hidden_size // cfg.num_attention_heads,
    },
    fields={**FIELDS, "eps": "layer_norm_eps"},
    renames=((r"^lm_head\.", "embed_out."),),
    untouched=(r"\.attention\.(masked_)?bias$", r"rotary_emb\.inv_freq$"),
)  # fmt: skip
def gpt_neox(s: Builder, cfg: Config) -> None:
    eps, width, rotated = cfg.layer_norm_eps, cfg.hidden_size // cfg.num_attention_heads, rotary_width(cfg)
    s.constant("rope", rope_constants(cfg))
    s.constant("parallel residual", cfg.use_parallel_residual)
    d = s.space("residual", cfg.hidden_size)
    s.leaf("embed_in.weight", "v d", d=d)
    for l in s.layers("layers.{}", cfg.num_hidden_layers):
        h = l.space("heads", cfg.num_attention_heads, head_sum())
        parts = []
        if rotated:
            parts.append(("rotary", l.space("qk_rotary", rotated, bilinear(), rope(geometric(cfg)), base=h)))
        if rotated < width:
            parts.append(("pass", l.space("qk_pass", width - rotated, bilinear(), base=h).at(rotated)))
        ov = l.space("ov", width, base=h)
        ln = l.norm("layer", "input_layernorm", d, eps)
        fused: dict[str, Any] = {"maps": "d -> (h t k)", "norm": ln, "bias": cfg.attention_bias, "d": d.co}
        queries, keys = [], []
        for name, qk in parts:
            queries.append(l.linear("attention.query_key_value", part=f"query_{name}", t=0, h=h.perm, k=qk, **fused))
            keys.append(l.linear("attention.query_key_value", part=f"key_{name}", t=1, h=h.perm, k=qk.co, **fused))
        v = l.linear("attention.query_key_value", part="value", t=2, h=h, k=ov, **fused)
        o = l.linear("attention.dense", "(h k) -> d", bias=cfg.attention_bias, h=h.co, k=ov.co, d=d)
        l.attention("attention", queries=queries, keys=keys, value=v, output=o)

        f = l.space("ffn", cfg.intermediate_size, elementwise(cfg.hidden_act))
        ln = l.norm("layer", "post_attention_layernorm", d, eps)
        l.linear("mlp.dense_h_to_4h", "d -> f", norm=ln, d=d.co, f=f)
        l.linear("mlp.dense_4h_to_h", "f -> d", f=f.co, d=d)
    ln = s.norm("layer", "final_layer_norm", d, eps, blocked=s.final_block("embed_in.weight"))
    s.readout(d, ln, "embed_in.weight")
