"""ALBERT: one layer, or a few, run again and again: one set of maps serves all of its runs.

Its first run reads the map behind the embeddings, its later ones its own last norm, so no gain can move into it.
"""

from __future__ import annotations

from onebasin.archs.encoder import ON_SKIP, attention, labels, masked_lm, pooler
from onebasin.archs.plain import ffn
from onebasin.archs.registry import FIELDS, Config, architecture
from onebasin.spec import Axis, Builder, Head, Tokens

WORDS = "embeddings.word_embeddings.weight"
MAPS = ("attention.query", "attention.key", "attention.value", "attention.dense")


@architecture(
    "albert",
    prefix="albert.",
    heads={
        "AlbertModel": Head(),
        "AlbertForMaskedLM": Head("predictions.decoder", bias=True, vocabulary=True),
        "AlbertForSequenceClassification": Head("classifier", bias=True, pooled=True),
        "AlbertForTokenClassification": Head("classifier", bias=True),
    },
    inputs=lambda cfg: Tokens(cfg.vocab_size, cfg.max_position_embeddings),
    sizes=lambda cfg: {
        "v": cfg.vocab_size, "p": cfg.max_position_embeddings, "y": cfg.type_vocab_size, "c": cfg.num_labels,
    },
    fields={**FIELDS, "eps": "layer_norm_eps"},
    untouched=(r"embeddings\.position_ids$",),
)  # fmt: skip
def albert(s: Builder, cfg: Config) -> None:
    s.constant("runs of layers", (cfg.num_hidden_layers, cfg.num_hidden_groups, cfg.inner_group_num))
    e, d = s.space("embedding", cfg.embedding_size), s.space("residual", cfg.hidden_size)
    for letter, table in (("v", "word_embeddings"), ("p", "position_embeddings"), ("y", "token_type_embeddings")):
        s.leaf(f"embeddings.{table}.weight", f"{letter} e", e=e)
    ln = s.norm("layer", "embeddings.LayerNorm", e, cfg.layer_norm_eps)
    s.linear("encoder.embedding_hidden_mapping_in", "e -> d", norm=ln, e=e.co, d=d)
    for group in range(cfg.num_hidden_groups):
        first, template = group * cfg.inner_group_num, f"encoder.albert_layer_groups.{group}.albert_layers.{{}}"
        for l in s.layers(template, cfg.inner_group_num, first):
            attention(l, cfg, d, norm=None, names=MAPS)
            ln = l.norm("layer", "attention.LayerNorm", d, cfg.layer_norm_eps, blocked=ON_SKIP)
            ffn(l, d, norm=ln, names=("ffn", "ffn_output"), size=cfg.intermediate_size, activation=cfg.hidden_act)
            ln = l.norm("layer", "full_layer_layer_norm", d, cfg.layer_norm_eps, blocked=ON_SKIP)
    read(s, cfg, e, d, ln)


def read(s: Builder, cfg: Config, words: Axis, d: Axis, ln: str) -> None:
    if s.head.vocabulary:
        masked_lm(s, words, d, norm=ln, embedding=WORDS, decoder="predictions.decoder", own_bias="predictions.bias",
                  activation=cfg.hidden_act, eps=cfg.layer_norm_eps,
                  names=("predictions.dense", "predictions.LayerNorm"))  # fmt: skip
    elif s.head.pooled:
        labels(s, pooler(s, d, norm=ln, size=cfg.hidden_size, activation="tanh", optional=False, name="pooler"))
    else:
        s.readout(d, ln, "")
        if s.head.key is None:
            e = pooler(s, d, norm=ln, size=cfg.hidden_size, activation="tanh", optional=True, name="pooler")
            s.output("pooler_output", e)
