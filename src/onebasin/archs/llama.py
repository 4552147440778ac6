"""Llama and its relatives: RMSNorm, rotary positions, grouped key/value heads, gated FFN.

Mistral differs in nothing here; Qwen2 has query/key/value biases; Qwen3 normalises queries and keys inside each head
and has a head width of its own.  SmolLM3 has layers without positions; Granite multiplies embeddings, blocks, scores
and logits by settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onebasin.archs.grouped import Attend, attend
from onebasin.archs.plain import gated_ffn
from onebasin.archs.registry import GROUPED, Config, Declaration, architecture
from onebasin.archs.rotary import geometric, rope_constants
from onebasin.spec import Axis, Builder, Head, Tokens
from onebasin.spec.ops import rope


def grouped_attention(
    l: Builder, cfg: Config, d: Axis, *, qkv_bias: bool, o_bias: bool, normed: bool, turned: bool = True, **how: Any
) -> None:
    """Attention behind its own norm."""
    ln = l.norm("rms", "input_layernorm", d, cfg.rms_norm_eps)
    turn, norm = rope(geometric(cfg)) if turned else None, "head" if normed else ""
    attend(l, cfg, d, ln, Attend(qkv_bias=qkv_bias, o_bias=o_bias, turn=turn, norm=norm, **how))


def decoder(s: Builder, cfg: Config, *, qkv_bias: bool, o_bias: bool, mlp_bias: bool, normed: bool = False,
            scaled: bool = True) -> None:  # fmt: skip
    s.constant("rope", rope_constants(cfg))
    s.constant("sliding window", (getattr(cfg, "sliding_window", None), getattr(cfg, "layer_types", None)))
    turned = getattr(cfg, "no_rope_layers", None) or [True] * cfg.num_hidden_layers
    d = s.space("residual", cfg.hidden_size)
    s.leaf("embed_tokens.weight", "v d", d=d)
    for l, turns in zip(s.layers("layers.{}", cfg.num_hidden_layers), turned, strict=True):
        grouped_attention(l, cfg, d, qkv_bias=qkv_bias, o_bias=o_bias, normed=normed, turned=bool(turns), scaled=scaled)
        ln = l.norm("rms", "post_attention_layernorm", d, cfg.rms_norm_eps)
        gated_ffn(l, d, norm=ln, size=cfg.intermediate_size, activation=cfg.hidden_act, bias=mlp_bias)
    ln = s.norm("rms", "norm", d, cfg.rms_norm_eps, blocked=s.final_block("embed_tokens.weight"))
    s.readout(d, ln, "embed_tokens.weight")


def like_llama(
    model_type: str, name: str, *, heads: Mapping[str, Head] | None = None, **more: Any
) -> Callable[[Declaration], Declaration]:
    """Register a table under Llama's names; what differs is in `heads` and `more`."""
    usual = {
        f"{name}Model": Head(),
        f"{name}ForCausalLM": Head("lm_head", vocabulary=True),
        f"{name}ForSequenceClassification": Head("score"),
        f"{name}ForTokenClassification": Head("score", bias=True),
    }
    settings: dict[str, Any] = {
        "prefix": "model.",
        "inputs": lambda cfg: Tokens(cfg.vocab_size, cfg.max_position_embeddings),
        "sizes": lambda cfg: {"v": cfg.vocab_size, "c": cfg.num_labels},
        "fields": {**GROUPED, "head": "head_dim", "eps": "rms_norm_eps"},
        "untouched": (r"rotary_emb\.inv_freq$",),
    }
    return architecture(model_type, heads=heads or usual, **{**settings, **more})


@like_llama("llama", "Llama")
def llama(s: Builder, cfg: Config) -> None:
    decoder(s, cfg, qkv_bias=cfg.attention_bias, o_bias=cfg.attention_bias, mlp_bias=cfg.mlp_bias)


@like_llama("mistral", "Mistral")
def mistral(s: Builder, cfg: Config) -> None:
    decoder(s, cfg, qkv_bias=False, o_bias=False, mlp_bias=False)


@like_llama("qwen2", "Qwen2")
def qwen2(s: Builder, cfg: Config) -> None:
    decoder(s, cfg, qkv_bias=True, o_bias=False, mlp_bias=False)


@like_llama("qwen3", "Qwen3")
def qwen3(s: Builder, cfg: Config) -> None:
    decoder(s, cfg, qkv_bias=cfg.attention_bias, o_bias=cfg.attention_bias, mlp_bias=False, normed=True)


@like_llama("smollm3", "SmolLM3")
def smollm3(s: Builder, cfg: Config) -> None:
    decoder(s, cfg, qkv_bias=cfg.attention_bias, o_bias=cfg.attention_bias, mlp_bias=cfg.mlp_bias)


@like_llama(
    "granite", "Granite", heads={"GraniteModel": Head(), "GraniteForCausalLM": Head("lm_head", vocabulary=True)}
)
def granite(s: Builder, cfg: Config) -> None:
    names = "embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"
    s.constant("multipliers", tuple(getattr(cfg, name) for name in names))
    biases = {"qkv_bias": cfg.attention_bias, "o_bias": cfg.attention_bias, "mlp_bias": cfg.mlp_bias}
    decoder(s, cfg, **biases, scaled=False)
