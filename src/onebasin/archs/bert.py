"""BERT and RoBERTa: post-LayerNorm encoders.  Each norm's gain sits on the skip path, so the stream only permutes.

RoBERTa numbers positions from behind the padding token's id, and its heads have other names; XLM-RoBERTa and CamemBERT
are RoBERTa.
"""

from __future__ import annotations

from collections.abc import Callable

from onebasin.archs.encoder import embedded, labels, masked_lm, pooler, post_norm_layers, text_heads
from onebasin.archs.registry import FIELDS, Config, Declaration, architecture
from onebasin.spec import Axis, Builder, Head, Tokens

OLD_NORMS = ((r"\.LayerNorm\.gamma$", ".LayerNorm.weight"), (r"\.LayerNorm\.beta$", ".LayerNorm.bias"))
WORDS = "embeddings.word_embeddings.weight"


def _sizes(cfg: Config) -> dict[str, int]:
    return {"v": cfg.vocab_size, "p": cfg.max_position_embeddings, "y": cfg.type_vocab_size, "c": cfg.num_labels}


def _behind_padding(cfg: Config) -> Tokens:
    """Positions are counted over all tokens but padding, and begin behind the number of that."""
    return Tokens(cfg.vocab_size, cfg.max_position_embeddings - cfg.pad_token_id - 1, fixed=(cfg.pad_token_id,))


def encoder(s: Builder, cfg: Config) -> tuple[Axis, str]:
    """The stream, and the norm that writes its last state."""
    d = s.space("residual", cfg.hidden_size)
    s.constant("is_decoder", cfg.is_decoder)
    _, ln = embedded(s, cfg, d, ("v", "word_embeddings"), ("p", "position_embeddings"), ("y", "token_type_embeddings"))
    return d, post_norm_layers(s, cfg, d, ln)


def bare(s: Builder, cfg: Config, d: Axis, ln: str) -> None:
    """The stream itself, or labels of it; the bare model has a pooler besides."""
    s.readout(d, ln, "")
    if s.head.key is None:
        e = pooler(s, d, norm=ln, size=cfg.hidden_size, activation="tanh", optional=True)
        s.output("pooler_output", e)


@architecture(
    "bert",
    prefix="bert.",
    heads={
        "BertModel": Head(),
        "BertForMaskedLM": Head("cls.predictions.decoder", bias=True, vocabulary=True),
        "BertForSequenceClassification": Head("classifier", bias=True, pooled=True),
        "BertForTokenClassification": Head("classifier", bias=True),
    },
    inputs=lambda cfg: Tokens(cfg.vocab_size, cfg.max_position_embeddings),
    sizes=_sizes,
    fields={**FIELDS, "eps": "layer_norm_eps"},
    renames=OLD_NORMS,
    untouched=(r"embeddings\.position_ids$",),
)
def bert(s: Builder, cfg: Config) -> None:
    d, ln = encoder(s, cfg)
    if s.head.vocabulary:
        masked_lm(s, d, d, norm=ln, embedding=WORDS, decoder="cls.predictions.decoder", own_bias="cls.predictions.bias",
                  activation=cfg.hidden_act, eps=cfg.layer_norm_eps,
                  names=("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"))  # fmt: skip
    elif s.head.pooled:
        labels(s, pooler(s, d, norm=ln, size=cfg.hidden_size, activation="tanh", optional=False))
    else:
        bare(s, cfg, d, ln)


def _like_roberta(model_type: str, name: str) -> Callable[[Declaration], Declaration]:
    return architecture(
        model_type,
        prefix="roberta.",
        heads=text_heads(name, "lm_head.decoder"),
        inputs=_behind_padding,
        sizes=_sizes,
        fields={**FIELDS, "eps": "layer_norm_eps"},
        renames=OLD_NORMS,
        untouched=(r"embeddings\.position_ids$",),
    )


@_like_roberta("roberta", "Roberta")
@_like_roberta("xlm-roberta", "XLMRoberta")
@_like_roberta("camembert", "Camembert")
def roberta(s: Builder, cfg: Config) -> None:
    s.constant("token of padding, behind which positions begin", cfg.pad_token_id)
    d, ln = encoder(s, cfg)
    if s.head.vocabulary:
        masked_lm(s, d, d, norm=ln, embedding=WORDS, decoder="lm_head.decoder", own_bias="lm_head.bias",
                  activation="gelu", eps=cfg.layer_norm_eps,
                  names=("lm_head.dense", "lm_head.layer_norm"))  # fmt: skip
    elif s.head.pooled:
        labels(s, pooler(s.root, d, norm=ln, size=cfg.hidden_size, activation="tanh", optional=False,
                         name="classifier.dense"))  # fmt: skip
    else:
        bare(s, cfg, d, ln)
