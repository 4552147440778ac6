"""OPT: learned positions, LayerNorm before or behind the blocks, and tokens that may enter through a smaller space."""

from __future__ import annotations

from onebasin.archs.encoder import ON_SKIP
from onebasin.archs.plain import attention, ffn
from onebasin.archs.registry import FIELDS, Config, architecture
from onebasin.spec import Axis, Builder, Head, Tokens

EPS = 1e-5  # in the code


@architecture(
    "opt",
    prefix="model.",
    heads={
        "OPTModel": Head(),
        "OPTForCausalLM": Head("lm_head", vocabulary=True),
        "OPTForSequenceClassification": Head("score"),
    },
    inputs=lambda cfg: Tokens(cfg.vocab_size, cfg.max_position_embeddings),
    sizes=lambda cfg: {"v": cfg.vocab_size, "p": cfg.max_position_embeddings + 2, "c": cfg.num_labels},
    fields={**FIELDS, "ffn": "ffn_dim"},
    follows={"word_embed_proj_dim": "hidden_size"},
)
def opt(s: Builder, cfg: Config) -> None:
    before, gain = cfg.do_layer_norm_before, cfg.layer_norm_elementwise_affine
    s.constant("norms", (before, cfg._remove_final_layer_norm))
    d = s.space("residual", cfg.hidden_size)
    tokens = d
    if cfg.word_embed_proj_dim != cfg.hidden_size:
        tokens = s.space("tokens", cfg.word_embed_proj_dim)
        s.linear("decoder.project_in", "e -> d", bias=False, e=tokens.co, d=d)
    s.leaf("decoder.embed_tokens.weight", "v e", e=tokens)
    s.leaf("decoder.embed_positions.weight", "p d", d=d)
    ln: str | None = None
    ends = [ON_SKIP] * (cfg.num_hidden_layers - 1) + [last_block(s, cfg)]
    for l, end in zip(s.layers("decoder.layers.{}", cfg.num_hidden_layers), ends, strict=True):
        if before:
            attend(l, cfg, d, l.norm("layer", "self_attn_layer_norm", d, EPS, gain=gain))
            feed(l, cfg, d, l.norm("layer", "final_layer_norm", d, EPS, gain=gain))
        else:
            attend(l, cfg, d, ln)
            ln = l.norm("layer", "self_attn_layer_norm", d, EPS, gain=gain, blocked=ON_SKIP)
            feed(l, cfg, d, ln)
            ln = l.norm("layer", "final_layer_norm", d, EPS, gain=gain, blocked=end)
    if before and not cfg._remove_final_layer_norm:
        ln = s.norm("layer", "decoder.final_layer_norm", d, EPS, gain=gain, blocked=ends[-1])
    leave(s, cfg, d, tokens, ln)


def attend(l: Builder, cfg: Config, d: Axis, norm: str | None) -> None:
    names = "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"
    heads = cfg.num_attention_heads
    attention(l, d, norm=norm, heads=heads, width=cfg.hidden_size // heads, names=names, bias=[cfg.enable_bias] * 4)


def feed(l: Builder, cfg: Config, d: Axis, norm: str) -> None:
    units = {"size": cfg.ffn_dim, "activation": cfg.activation_function, "bias": cfg.enable_bias}
    ffn(l, d, norm=norm, names=("fc1", "fc2"), **units)


def last_block(s: Builder, cfg: Config) -> str | None:
    """Why the last gain stays: not if a projection follows that can take it."""
    return s.final_block("decoder.embed_tokens.weight") if cfg.word_embed_proj_dim == cfg.hidden_size else None


def leave(s: Builder, cfg: Config, d: Axis, tokens: Axis, ln: str | None) -> None:
    """The head reads the stream, or the small space that a projection brings it to."""
    if tokens == d:
        s.readout(d, ln, "decoder.embed_tokens.weight")
        return
    out = tokens if s.tied else s.space("projected", cfg.word_embed_proj_dim)
    s.linear("decoder.project_out", "d -> e", norm=ln, bias=False, d=d.co, e=out)
    s.readout(out, None, "decoder.embed_tokens.weight")
