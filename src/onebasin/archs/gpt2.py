"""GPT-2: pre-LayerNorm, learned positions, fused and transposed (Conv1D) query/key/value, head tied or not."""

from __future__ import annotations

from typing import Any

from onebasin.archs.registry import Config, architecture
from onebasin.spec import Builder, Head, Tokens
from onebasin.spec.ops import bilinear, elementwise, head_sum


@architecture(
    "gpt2",
    prefix="transformer.",
    heads={
        "GPT2Model": Head(),
        "GPT2LMHeadModel": Head("lm_head", vocabulary=True),
        "GPT2ForSequenceClassification": Head("score"),
        "GPT2ForTokenClassification": Head("classifier", bias=True),
    },
    inputs=lambda cfg: Tokens(cfg.vocab_size, cfg.n_positions),
    sizes=lambda cfg: {"v": cfg.vocab_size, "p": cfg.n_positions, "c": cfg.num_labels, "t": 3},
    fields={"residual": "n_embd", "heads": "n_head", "ffn": "n_inner", "eps": "layer_norm_epsilon"},
    untouched=(r"\.attn\.(masked_)?bias$",),
)
def gpt2(s: Builder, cfg: Config) -> None:
    eps, width = cfg.layer_norm_epsilon, cfg.n_embd // cfg.n_head
    s.constant("attention scaling", (cfg.scale_attn_weights, cfg.scale_attn_by_inverse_layer_idx))
    d = s.space("residual", cfg.n_embd)
    s.leaf("wte.weight", "v d", d=d)
    s.leaf("wpe.weight", "p d", d=d)
    for l in s.layers("h.{}", cfg.n_layer):
        h = l.space("heads", cfg.n_head, head_sum())
        qk = l.space("qk", width, bilinear(), base=h)
        ov = l.space("ov", width, base=h)
        ln = l.norm("layer", "ln_1", d, eps)
        fused: dict[str, Any] = {"maps": "d -> (t h k)", "conv1d": True, "norm": ln, "d": d.co}
        q = l.linear("attn.c_attn", part="query", t=0, h=h.perm, k=qk, **fused)
        k = l.linear("attn.c_attn", part="key", t=1, h=h.perm, k=qk.co, **fused)
        v = l.linear("attn.c_attn", part="value", t=2, h=h, k=ov, **fused)
        o = l.linear("attn.c_proj", "(h k) -> d", conv1d=True, h=h.co, k=ov.co, d=d)
        l.attention("attention", queries=[q], keys=[k], value=v, output=o, scaled=cfg.scale_attn_weights)

        f = l.space("ffn", cfg.n_inner or 4 * cfg.n_embd, elementwise(cfg.activation_function))
        ln = l.norm("layer", "ln_2", d, eps)
        l.linear("mlp.c_fc", "d -> f", conv1d=True, norm=ln, d=d.co, f=f)
        l.linear("mlp.c_proj", "f -> d", conv1d=True, f=f.co, d=d)
    ln = s.norm("layer", "ln_f", d, eps, blocked=s.final_block("wte.weight"))
    s.readout(d, ln, "wte.weight")
