"""DistilBERT: half of BERT's layers under names of its own, without token types and pooler; one eps for all models."""

from __future__ import annotations

from onebasin.archs.encoder import ON_SKIP, attention, labels, last_block, masked_lm, pooler
from onebasin.archs.plain import ffn
from onebasin.archs.registry import Config, architecture
from onebasin.spec import Builder, Head, Tokens

EPS = 1e-12
MAPS = ("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin")
WORDS = "embeddings.word_embeddings.weight"


@architecture(
    "distilbert",
    prefix="distilbert.",
    heads={
        "DistilBertModel": Head(),
        "DistilBertForMaskedLM": Head("vocab_projector", bias=True, vocabulary=True),
        "DistilBertForSequenceClassification": Head("classifier", bias=True, pooled=True),
        "DistilBertForTokenClassification": Head("classifier", bias=True),
    },
    inputs=lambda cfg: Tokens(cfg.vocab_size, cfg.max_position_embeddings),
    sizes=lambda cfg: {"v": cfg.vocab_size, "p": cfg.max_position_embeddings, "c": cfg.num_labels},
    fields={"residual": "dim", "heads": "n_heads", "ffn": "hidden_dim"},
    untouched=(r"embeddings\.position_ids$",),
)
def distilbert(s: Builder, cfg: Config) -> None:
    d = s.space("residual", cfg.dim)
    s.leaf(WORDS, "v d", d=d)
    s.leaf("embeddings.position_embeddings.weight", "p d", d=d)
    ln = s.norm("layer", "embeddings.LayerNorm", d, EPS, blocked=ON_SKIP)
    for i, l in enumerate(s.layers("transformer.layer.{}", cfg.n_layers)):
        attention(l, cfg, d, norm=ln, names=MAPS)
        ln = l.norm("layer", "sa_layer_norm", d, EPS, blocked=ON_SKIP)
        ffn(l, d, norm=ln, names=("ffn.lin1", "ffn.lin2"), size=cfg.hidden_dim, activation=cfg.activation)
        last = i == cfg.n_layers - 1
        ln = l.norm("layer", "output_layer_norm", d, EPS, blocked=last_block(s) if last else ON_SKIP)
    if s.head.vocabulary:
        masked_lm(s, d, d, norm=ln, embedding=WORDS, decoder="vocab_projector", activation=cfg.activation, eps=EPS,
                  names=("vocab_transform", "vocab_layer_norm"))  # fmt: skip
    elif s.head.pooled:
        labels(s, pooler(s.root, d, norm=ln, size=cfg.dim, activation="relu", optional=False, name="pre_classifier"))
    else:
        s.readout(d, ln, "")
