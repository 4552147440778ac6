"""GPT-Neo: a GPT-2 with separate maps, scores that are not scaled, and layers that look back a few tokens only."""

from __future__ import annotations

from onebasin.archs.plain import attention, ffn
from onebasin.archs.registry import FIELDS, Config, architecture
from onebasin.spec import Builder, Head, Tokens

NAMES = "attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj", "attn.attention.out_proj"

OUTPUT = (False, False, False, True)  # which of these have a bias


@architecture(
    "gpt_neo",
    prefix="transformer.",
    heads={
        "GPTNeoModel": Head(),
        "GPTNeoForCausalLM": Head("lm_head", vocabulary=True),
        "GPTNeoForSequenceClassification": Head("score"),
        "GPTNeoForTokenClassification": Head("classifier", bias=True),
    },
    inputs=lambda cfg: Tokens(cfg.vocab_size, cfg.max_position_embeddings),
    sizes=lambda cfg: {"v": cfg.vocab_size, "p": cfg.max_position_embeddings, "c": cfg.num_labels},
    fields={**FIELDS, "heads": "num_heads", "eps": "layer_norm_epsilon"},
    untouched=(r"\.attn\.attention\.(masked_)?bias$",),
)
def gpt_neo(s: Builder, cfg: Config) -> None:
    eps, width = cfg.layer_norm_epsilon, cfg.hidden_size // cfg.num_heads
    s.constant("windows", (cfg.attention_types, cfg.window_size))
    d = s.space("residual", cfg.hidden_size)
    s.leaf("wte.weight", "v d", d=d)
    s.leaf("wpe.weight", "p d", d=d)
    for l in s.layers("h.{}", cfg.num_layers):
        ln = l.norm("layer", "ln_1", d, eps)
        attention(l, d, norm=ln, heads=cfg.num_heads, width=width, names=NAMES, bias=OUTPUT, scaled=False)
        ln, size = l.norm("layer", "ln_2", d, eps), cfg.intermediate_size or 4 * cfg.hidden_size
        ffn(l, d, norm=ln, names=("mlp.c_fc", "mlp.c_proj"), size=size, activation=cfg.activation_function)
    ln = s.norm("layer", "ln_f", d, eps, blocked=s.final_block("wte.weight"))
    s.readout(d, ln, "wte.weight")
