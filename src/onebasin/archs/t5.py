"""T5: one embedding for encoder and decoder makes their streams one; RMSNorm, no biases, scores that are not scaled.

One table of biases for distances serves all layers of the encoder, one all layers of the decoder: heads are permuted
in all of them together.  Those of cross attention are free.  Every layer of the decoder reads the encoder's last norm.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from onebasin.archs.plain import Names, attention, ffn, gated_ffn
from onebasin.archs.registry import Config, architecture, keep_layers
from onebasin.spec import Axis, Builder, Head, Tokens
from onebasin.spec.ops import elementwise, head_sum, tied

RETURNED = "its output is the model's output, and no linear map follows that could take the gain"
LENGTH = 512  # of inputs: positions are relative, and no setting says how far texts may reach


def _scaled(cfg: Config) -> bool:
    """Whether a tied head reads 1/√D of the stream; releases before 5.18 say so by the tie itself."""
    return bool(getattr(cfg, "scale_decoder_outputs", cfg.tie_word_embeddings))


def _ties(cfg: Config, stored: Collection[str]) -> bool:
    """Heads that are scaled are tied; of the others, from 5.18 on, those that are not in the file."""
    known = hasattr(cfg, "scale_decoder_outputs")
    return _scaled(cfg) or (known and "lm_head.weight" not in stored)


def _inputs(cfg: Config) -> dict[str, Tokens]:
    tokens = Tokens(cfg.vocab_size, LENGTH)
    if cfg.architectures[0] in ("T5EncoderModel", "T5ForTokenClassification"):
        return {"input_ids": tokens}
    if cfg.architectures[0] == "T5ForSequenceClassification":  # reads the state of the token that ends the text
        return {"input_ids": Tokens(cfg.vocab_size, LENGTH, end=cfg.eos_token_id), "decoder_input_ids": tokens}
    return {"input_ids": tokens, "decoder_input_ids": tokens}


def _shorten(cfg: Config, layers: Sequence[int]) -> None:
    """Layers of the encoder, and those of the decoder with the same numbers."""
    decoder = sum(i < cfg.num_decoder_layers for i in layers)
    keep_layers(cfg, layers)
    cfg.num_decoder_layers = decoder


@architecture(
    "t5",
    prefix="transformer.",
    heads={
        "T5Model": Head(),
        "T5EncoderModel": Head(),
        "T5ForConditionalGeneration": Head("lm_head", vocabulary=True, nested=False),
        "T5ForSequenceClassification": Head("classification_head.out_proj", bias=True, pooled=True),
        "T5ForTokenClassification": Head("classifier", bias=True),
    },
    inputs=_inputs,
    sizes=lambda cfg: {"v": cfg.vocab_size, "r": cfg.relative_attention_num_buckets, "c": cfg.num_labels},
    fields={
        "residual": "d_model", "heads": "num_heads", "head": "d_kv", "ffn": "d_ff", "eps": "layer_norm_epsilon",
    },
    untouched=(r"layer\.1\.EncDecAttention\.relative_attention_bias\.weight$",),
    ties=_ties,
    untied={"tie_word_embeddings": False, "scale_decoder_outputs": False},
    shorten=_shorten,
)  # fmt: skip
def t5(s: Builder, cfg: Config) -> None:
    name = cfg.architectures[0]
    s.constant("distances", (cfg.relative_attention_num_buckets, cfg.relative_attention_max_distance))
    d = s.space("residual", cfg.d_model)
    s.leaf("shared.weight", "v d", d=d)
    encoder = s.at(f"{s.prefix}encoder.", "encoder.")
    ln = stack(encoder, cfg, d, cfg.num_layers, blocked=RETURNED if s.head.key is None else None)
    if name in ("T5EncoderModel", "T5ForTokenClassification"):
        s.readout(d, ln, "")
        return
    blocked = s.final_block("shared.weight")
    decoder = s.at(f"{s.prefix}decoder.", "decoder.")
    last = stack(decoder, cfg, d, cfg.num_decoder_layers, blocked=blocked, encoded=(d, ln))
    if s.head.key is None:
        s.output("encoder_last_hidden_state", d)
    if s.head.pooled:
        e = s.space("pooler", cfg.d_model, elementwise("tanh"))
        s.root.linear("classification_head.dense", "d -> e", norm=last, d=d.co, e=e)
        s.root.linear("classification_head.out_proj", "e -> c", e=e.co)
        s.output("logits")
    elif s.tied:
        s.touch(d, tied())
        s.tie("lm_head.weight", "shared.weight", times=cfg.d_model**-0.5 if _scaled(cfg) else 1.0)
        s.output("logits")
    else:
        s.readout(d, last, "shared.weight")


def stack(
    s: Builder, cfg: Config, d: Axis, count: int, *, blocked: str | None, encoded: tuple[Axis, str] | None = None
) -> str:
    """The layers of the encoder, or those of the decoder, which read what was `encoded`; returns the last norm."""
    how: dict[str, Any] = {"width": cfg.d_kv, "bias": (False,) * 4, "scaled": False}
    h = s.space("heads", cfg.num_heads, head_sum())
    s.leaf("block.0.layer.0.SelfAttention.relative_attention_bias.weight", "r h", h=h.perm)
    s.mirror(f"{s.key}embed_tokens.weight", f"{s.prefix}shared.weight", tied=True)
    for l in s.layers("block.{}", count):
        norms = [l.norm("rms", f"layer.{i}.layer_norm", d, cfg.layer_norm_epsilon) for i in range(3 if encoded else 2)]
        attention(l, d, norm=norms[0], heads=h, names=maps("layer.0.SelfAttention"), **how)
        if encoded:
            cross = maps("layer.1.EncDecAttention")
            attention(l, d, norm=norms[1], heads=cfg.num_heads, names=cross, name="cross_", memory=encoded, **how)
        units(l, cfg, d, norms[-1], f"layer.{len(norms) - 1}.DenseReluDense")
    return s.norm("rms", "final_layer_norm", d, cfg.layer_norm_epsilon, blocked=blocked)


def maps(key: str) -> Names:
    """The names of the maps of one attention."""
    return f"{key}.q", f"{key}.k", f"{key}.v", f"{key}.o"


def units(l: Builder, cfg: Config, d: Axis, ln: str, key: str) -> None:
    how: dict[str, Any] = {"norm": ln, "size": cfg.d_ff, "activation": cfg.dense_act_fn, "bias": False}
    if cfg.is_gated_act:
        gated_ffn(l, d, names=(f"{key}.wi_0", f"{key}.wi_1", f"{key}.wo"), **how)
    else:
        ffn(l, d, names=(f"{key}.wi", f"{key}.wo"), **how)
