"""OLMo: LayerNorm without parameters, and queries, keys and values that may be clipped.

OLMo 2 normalises only what a block adds to the stream (RMSNorm, with gains that stay), and queries and keys over all
heads together.
"""

from __future__ import annotations

from onebasin.archs.grouped import WRITES, Attend, attend
from onebasin.archs.llama import like_llama
from onebasin.archs.plain import gated_ffn
from onebasin.archs.registry import GROUPED, Config
from onebasin.archs.rotary import geometric, rope_constants
from onebasin.spec import Axis, Builder, Head
from onebasin.spec.ops import elementwise, rope

EPS = 1e-5  # of OLMo's norms, in the code


def classes(name: str) -> dict[str, Head]:
    return {
        f"{name}Model": Head(),
        f"{name}ForCausalLM": Head("lm_head", vocabulary=True),
        f"{name}ForSequenceClassification": Head("score"),
    }


def embedded(s: Builder, cfg: Config) -> Axis:
    s.constant("rope", rope_constants(cfg))
    d = s.space("residual", cfg.hidden_size)
    s.leaf("embed_tokens.weight", "v d", d=d)
    return d


@like_llama("olmo", "Olmo", heads=classes("Olmo"), fields={**GROUPED, "head": "head_dim"})
def olmo(s: Builder, cfg: Config) -> None:
    d, bias = embedded(s, cfg), cfg.attention_bias
    s.constant("clip", cfg.clip_qkv)
    clipped = () if cfg.clip_qkv is None else (elementwise("clip"),)
    how = Attend(qkv_bias=bias, o_bias=bias, turn=rope(geometric(cfg)), on_qk=clipped, on_v=clipped)
    for l in s.layers("layers.{}", cfg.num_hidden_layers):
        attend(l, cfg, d, l.norm("layer", "input_layernorm", d, EPS, gain=False), how)
        ln = l.norm("layer", "post_attention_layernorm", d, EPS, gain=False)
        gated_ffn(
            l,
            d,
            norm=ln,
            size=cfg.intermediate_size,
            activation=cfg.hidden_act,
        )
    s.readout(d, s.norm("layer", "norm", d, EPS, gain=False), "embed_tokens.weight")


@like_llama("olmo2", "Olmo2", heads=classes("Olmo2"))
def olmo2(s: Builder, cfg: Config) -> None:
    d, bias = embedded(s, cfg), cfg.attention_bias
    how = Attend(qkv_bias=bias, o_bias=bias, turn=rope(geometric(cfg)), norm="all")
    for l in s.layers("layers.{}", cfg.num_hidden_layers):
        attend(l, cfg, d, None, how)
        l.norm("rms", "post_attention_layernorm", d, cfg.rms_norm_eps, blocked=WRITES)
        gated_ffn(l, d, norm=None, size=cfg.intermediate_size, activation=cfg.hidden_act)
        l.norm("rms", "post_feedforward_layernorm", d, cfg.rms_norm_eps, blocked=WRITES)
    ln = s.norm("rms", "norm", d, cfg.rms_norm_eps, blocked=s.final_block("embed_tokens.weight"))
    s.readout(d, ln, "embed_tokens.weight")
