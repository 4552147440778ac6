"""Gemma: RMSNorm whose gain is stored less one, embeddings that the code multiplies by √D, a head width of its own.

Gemma 2 and 3 normalise also what a block adds to the stream: these gains stay, and with them signed permutations.
Gemma 2 cuts scores softly, Gemma 3 normalises queries and keys, and its layers turn positions at two speeds.
"""

from __future__ import annotations

import math

from onebasin.archs.grouped import WRITES, Attend, attend
from onebasin.archs.llama import like_llama
from onebasin.archs.plain import gated_ffn
from onebasin.archs.registry import Config
from onebasin.archs.rotary import geometric, rope_constants
from onebasin.spec import Axis, Builder, Head
from onebasin.spec.ops import rope, soft_cap

WINDOWS = "sliding_window", "layer_types", "use_bidirectional_attention", "rope_local_base_freq"


def embedded(s: Builder, cfg: Config) -> Axis:
    """The stream: √D times what the table of tokens holds."""
    d = s.space("residual", cfg.hidden_size)
    s.leaf("embed_tokens.weight", "v d", times=math.sqrt(cfg.hidden_size), d=d)
    s.constant("rope", rope_constants(cfg))
    s.constant("windows", tuple(getattr(cfg, name, None) for name in WINDOWS))
    return d


def finish(s: Builder, cfg: Config, d: Axis) -> None:
    blocked = s.final_block("embed_tokens.weight")
    ln = s.norm("rms", "norm", d, cfg.rms_norm_eps, blocked=blocked, plus=1.0)
    s.readout(d, ln, "embed_tokens.weight")


@like_llama("gemma", "Gemma")
def gemma(s: Builder, cfg: Config) -> None:
    d, bias = embedded(s, cfg), cfg.attention_bias
    for l in s.layers("layers.{}", cfg.num_hidden_layers):
        ln = l.norm("rms", "input_layernorm", d, cfg.rms_norm_eps, plus=1.0)
        attend(l, cfg, d, ln, Attend(qkv_bias=bias, o_bias=bias, turn=rope(geometric(cfg))))
        ln = l.norm("rms", "post_attention_layernorm", d, cfg.rms_norm_eps, plus=1.0)
        gated_ffn(l, d, norm=ln, size=cfg.intermediate_size, activation=cfg.hidden_act)
    finish(s, cfg, d)


def sandwich(l: Builder, cfg: Config, d: Axis, how: Attend) -> None:
    """Each block has a norm before it and one behind it."""
    ln = l.norm("rms", "input_layernorm", d, cfg.rms_norm_eps, plus=1.0)
    attend(l, cfg, d, ln, how)
    l.norm("rms", "post_attention_layernorm", d, cfg.rms_norm_eps, plus=1.0, blocked=WRITES)
    ln = l.norm("rms", "pre_feedforward_layernorm", d, cfg.rms_norm_eps, plus=1.0)
    gated_ffn(l, d, norm=ln, size=cfg.intermediate_size, activation=cfg.hidden_activation)
    l.norm("rms", "post_feedforward_layernorm", d, cfg.rms_norm_eps, plus=1.0, blocked=WRITES)


def scores(s: Builder, cfg: Config) -> None:
    """Scores are divided by the root of a setting, not of the head width."""
    s.constant("scale of scores", cfg.query_pre_attn_scalar)
    s.constant("soft caps", (cfg.attn_logit_softcapping, cfg.final_logit_softcapping))


@like_llama("gemma2", "Gemma2")
def gemma2(s: Builder, cfg: Config) -> None:
    d, bias = embedded(s, cfg), cfg.attention_bias
    scores(s, cfg)
    capped = () if cfg.attn_logit_softcapping is None else (soft_cap(),)
    for l in s.layers("layers.{}", cfg.num_hidden_layers):
        turn = rope(geometric(cfg))
        sandwich(l, cfg, d, Attend(qkv_bias=bias, o_bias=bias, turn=turn, on_qk=capped, scaled=False))
    finish(s, cfg, d)


@like_llama(
    "gemma3_text", "Gemma3",
    heads={
        "Gemma3TextModel": Head(),
        "Gemma3ForCausalLM": Head("lm_head", vocabulary=True),
        "Gemma3TextForSequenceClassification": Head("score"),
    },
)  # fmt: skip
def gemma3(s: Builder, cfg: Config) -> None:
    d, bias = embedded(s, cfg), cfg.attention_bias
    scores(s, cfg)
    for l, kind in zip(s.layers("layers.{}", cfg.num_hidden_layers), cfg.layer_types, strict=True):
        turn = rope(geometric(cfg, kind))
        how = Attend(qkv_bias=bias, o_bias=bias, turn=turn, norm="head", plus=1.0, scaled=False)
        sandwich(l, cfg, d, how)
    finish(s, cfg, d)
