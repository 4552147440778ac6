"""Llamas with LayerNorm: StarCoder 2 (plain FFN), StableLM (rotary positions on part of a head), Phi and Cohere.

The blocks of Phi and Cohere run side by side behind one norm.  Cohere's LayerNorm has no offset, and its rotary
positions turn pairs of neighbours.
"""

from __future__ import annotations

from onebasin.archs.grouped import Attend, attend, head_width
from onebasin.archs.llama import like_llama
from onebasin.archs.plain import ffn, gated_ffn
from onebasin.archs.registry import GROUPED, Config, covers
from onebasin.archs.rotary import geometric, rope_constants, rotary_width
from onebasin.spec import Axis, Builder, Head
from onebasin.spec.ops import rope


def embedded(s: Builder, cfg: Config) -> Axis:
    s.constant("rope", rope_constants(cfg))
    s.constant("sliding window", (getattr(cfg, "sliding_window", None), getattr(cfg, "layer_types", None)))
    d = s.space("residual", cfg.hidden_size)
    s.leaf("embed_tokens.weight", "v d", d=d)
    return d


@like_llama("starcoder2", "Starcoder2", fields={**GROUPED, "head": "head_dim", "eps": "norm_epsilon"})
def starcoder2(s: Builder, cfg: Config) -> None:
    d, eps, bias = embedded(s, cfg), cfg.norm_epsilon, cfg.use_bias
    how = Attend(qkv_bias=bias, o_bias=bias, turn=rope(geometric(cfg)))
    units = {"size": cfg.intermediate_size, "activation": cfg.hidden_act, "bias": bias}
    for l in s.layers("layers.{}", cfg.num_hidden_layers):
        attend(l, cfg, d, l.norm("layer", "input_layernorm", d, eps), how)
        ffn(l, d, norm=l.norm("layer", "post_attention_layernorm", d, eps), names=("mlp.c_fc", "mlp.c_proj"), **units)
    s.readout(d, s.norm("layer", "norm", d, eps, blocked=s.final_block("embed_tokens.weight")), "embed_tokens.weight")


@like_llama(
    "stablelm", "StableLm", fields={**GROUPED, "eps": "layer_norm_eps"},
    sizes=lambda cfg: {"v": cfg.vocab_size, "c": cfg.num_labels, "k": head_width(cfg)},
)  # fmt: skip
def stablelm(s: Builder, cfg: Config) -> None:
    covers(cfg, qk_layernorm=False)
    d, eps = embedded(s, cfg), cfg.layer_norm_eps
    s.constant("parallel residual", cfg.use_parallel_residual)
    how = Attend(qkv_bias=cfg.use_qkv_bias, turn=rope(geometric(cfg)), rotated=rotary_width(cfg))
    for l in s.layers("layers.{}", cfg.num_hidden_layers):
        ln = l.norm("layer", "input_layernorm", d, eps)
        attend(l, cfg, d, ln, how)
        ln = ln if cfg.use_parallel_residual else l.norm("layer", "post_attention_layernorm", d, eps)
        gated_ffn(l, d, norm=ln, size=cfg.intermediate_size, activation=cfg.hidden_act)
    s.readout(d, s.norm("layer", "norm", d, eps, blocked=s.final_block("embed_tokens.weight")), "embed_tokens.weight")


@like_llama(
    "cohere", "Cohere", fields={**GROUPED, "head": "head_dim", "eps": "layer_norm_eps"},
    heads={"CohereModel": Head(), "CohereForCausalLM": Head("lm_head", vocabulary=True)},
)  # fmt: skip
def cohere(s: Builder, cfg: Config) -> None:
    covers(cfg, use_qk_norm=False)
    d, eps, bias = embedded(s, cfg), cfg.layer_norm_eps, cfg.attention_bias
    s.constant("scale of logits", cfg.logit_scale)
    how = Attend(qkv_bias=bias, o_bias=bias, turn=rope(geometric(cfg)), interleaved=True)
    for l in s.layers("layers.{}", cfg.num_hidden_layers):
        ln = l.norm("layer", "input_layernorm", d, eps, bias=False)
        attend(l, cfg, d, ln, how)
        gated_ffn(l, d, norm=ln, size=cfg.intermediate_size, activation=cfg.hidden_act)
    blocked = s.final_block("embed_tokens.weight")
    s.readout(d, s.norm("layer", "norm", d, eps, bias=False, blocked=blocked), "embed_tokens.weight")


@like_llama(
    "phi", "Phi", fields={**GROUPED, "eps": "layer_norm_eps"},
    heads={
        "PhiModel": Head(),
        "PhiForCausalLM": Head("lm_head", bias=True, vocabulary=True),
        "PhiForSequenceClassification": Head("score"),
        "PhiForTokenClassification": Head("score", bias=True),
    },
    sizes=lambda cfg: {"v": cfg.vocab_size, "c": cfg.num_labels, "k": head_width(cfg)},
)  # fmt: skip
def phi(s: Builder, cfg: Config) -> None:
    covers(cfg, qk_layernorm=False)
    d, eps, turn = embedded(s, cfg), cfg.layer_norm_eps, rope(geometric(cfg))
    how = Attend(qkv_bias=True, o_bias=True, turn=turn, rotated=rotary_width(cfg), output="dense")
    units = {"size": cfg.intermediate_size, "activation": cfg.hidden_act}
    for l in s.layers("layers.{}", cfg.num_hidden_layers):
        ln = l.norm("layer", "input_layernorm", d, eps)
        attend(l, cfg, d, ln, how)
        ffn(l, d, norm=ln, names=("mlp.fc1", "mlp.fc2"), **units)
    ln = s.norm("layer", "final_layernorm", d, eps, blocked=s.final_block("embed_tokens.weight"))
    s.readout(d, ln, "embed_tokens.weight")
