"""GPT-J: attention and FFN side by side behind one LayerNorm; rotary positions on pairs of neighbours."""

from __future__ import annotations

from onebasin.archs.plain import attention, ffn
from onebasin.archs.registry import Config, architecture
from onebasin.spec import Builder, Head, Tokens
from onebasin.spec.ops import rope

NAMES = "attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.out_proj"


@architecture(
    "gptj",
    prefix="transformer.",
    heads={
        "GPTJModel": Head(),
        "GPTJForCausalLM": Head("lm_head", bias=True, vocabulary=True),
        "GPTJForSequenceClassification": Head("score"),
    },
    inputs=lambda cfg: Tokens(cfg.vocab_size, cfg.n_positions),
    sizes=lambda cfg: {"v": cfg.vocab_size, "c": cfg.num_labels, "k": cfg.n_embd // cfg.n_head},
    fields={"residual": "n_embd", "heads": "n_head", "ffn": "n_inner", "eps": "layer_norm_epsilon"},
    untouched=(r"\.attn\.(masked_)?bias$", r"embed_positions$"),
)
def gptj(s: Builder, cfg: Config) -> None:
    eps, width = cfg.layer_norm_epsilon, cfg.n_embd // cfg.n_head
    s.constant("rotary_dim", cfg.rotary_dim)
    d = s.space("residual", cfg.n_embd)
    s.leaf("wte.weight", "v d", d=d)
    for l in s.layers("h.{}", cfg.n_layer):
        ln = l.norm("layer", "ln_1", d, eps)
        turned = {"turn": rope() if cfg.rotary_dim else None, "turned": cfg.rotary_dim, "interleaved": True}
        attention(l, d, norm=ln, heads=cfg.n_head, width=width, names=NAMES, bias=(False,) * 4, **turned)
        size = cfg.n_inner or 4 * cfg.n_embd
        ffn(l, d, norm=ln, names=("mlp.fc_in", "mlp.fc_out"), size=size, activation=cfg.activation_function)
    ln = s.norm("layer", "ln_f", d, eps, blocked=s.final_block("wte.weight"))
    s.readout(d, ln, "wte.weight")
