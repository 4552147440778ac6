"""ELECTRA and RoFormer: BERT with embeddings that may be narrower than the stream, and other heads.

The map from embeddings to the stream takes the gain of their norm.  RoFormer turns neighbouring coordinates of queries
and keys with the position, by a table that it stores.
"""

from __future__ import annotations

from collections.abc import Callable

from onebasin.archs.encoder import embedded, labels, masked_lm, pooler, post_norm_layers, text_heads
from onebasin.archs.registry import FIELDS, Config, Declaration, architecture, covers
from onebasin.spec import Axis, Builder, Tokens
from onebasin.spec.ops import rope

WORDS = "embeddings.word_embeddings.weight"


def _narrow(model_type: str, name: str, decoder: str) -> Callable[[Declaration], Declaration]:
    return architecture(
        model_type,
        prefix=f"{model_type}.",
        heads=text_heads(name, decoder),
        inputs=lambda cfg: Tokens(cfg.vocab_size, cfg.max_position_embeddings),
        sizes=lambda cfg: {
            "v": cfg.vocab_size, "p": cfg.max_position_embeddings, "y": cfg.type_vocab_size, "c": cfg.num_labels,
            "w": cfg.hidden_size // cfg.num_attention_heads,
        },
        fields={**FIELDS, "eps": "layer_norm_eps"},
        untouched=(r"embeddings\.position_ids$",),
        follows={"embedding_size": "hidden_size"},
    )  # fmt: skip


def read(s: Builder, cfg: Config, d: Axis, ln: str, activation: str) -> None:
    """Labels of a text read a layer of their own; those of tokens, and the bare model, the stream."""
    if s.head.pooled:
        labels(s, pooler(s.root, d, norm=ln, size=cfg.hidden_size, activation=activation, optional=False,
                         name="classifier.dense"))  # fmt: skip
    else:
        s.readout(d, ln, "")


@_narrow("electra", "Electra", "generator_lm_head")
def electra(s: Builder, cfg: Config) -> None:
    d = s.space("residual", cfg.hidden_size)
    s.constant("is_decoder", cfg.is_decoder)
    tables = (("v", "word_embeddings"), ("p", "position_embeddings"), ("y", "token_type_embeddings"))
    e, ln = embedded(s, cfg, d, *tables)
    ln = post_norm_layers(s, cfg, d, ln)
    if s.head.vocabulary:
        masked_lm(s, e, d, norm=ln, embedding=WORDS, decoder="generator_lm_head", activation="gelu",
                  eps=cfg.layer_norm_eps, names=("generator_predictions.dense", "generator_predictions.LayerNorm"),
                  )  # fmt: skip
    else:
        read(s, cfg, d, ln, "gelu")


@_narrow("roformer", "RoFormer", "cls.predictions.decoder")
def roformer(s: Builder, cfg: Config) -> None:
    covers(cfg, rotary_value=False)
    d = s.space("residual", cfg.hidden_size)
    s.constant("is_decoder", cfg.is_decoder)
    e, ln = embedded(s, cfg, d, ("v", "word_embeddings"), ("y", "token_type_embeddings"))
    s.leaf("encoder.embed_positions.weight", "p w")
    ln = post_norm_layers(s, cfg, d, ln, turn=rope(), interleaved=True)
    if s.head.vocabulary:
        masked_lm(s, e, d, norm=ln, embedding=WORDS, decoder="cls.predictions.decoder", own_bias="cls.predictions.bias",
                  activation=cfg.hidden_act, eps=cfg.layer_norm_eps,
                  names=("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"))  # fmt: skip
    else:
        read(s, cfg, d, ln, cfg.hidden_act)
