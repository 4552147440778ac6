"""BERT: post-LayerNorm encoder.  Each norm's gain sits on the skip path, so the residual stream only permutes."""

from __future__ import annotations

from onebasin.archs.encoder import attention, feed_forward, pooler
from onebasin.archs.registry import FIELDS, Config, architecture
from onebasin.spec import Axis, Builder, Head, Tokens
from onebasin.spec.ops import elementwise, tied

ON_SKIP = "post-norm: its output is also the skip path, which has no linear map that could take the gain"


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
    sizes=lambda cfg: {
        "v": cfg.vocab_size, "p": cfg.max_position_embeddings, "y": cfg.type_vocab_size, "c": cfg.num_labels,
    },
    fields={**FIELDS, "eps": "layer_norm_eps"},
    renames=((r"\.LayerNorm\.gamma$", ".LayerNorm.weight"), (r"\.LayerNorm\.beta$", ".LayerNorm.bias")),
    untouched=(r"embeddings\.position_ids$",),
)  # fmt: skip
def bert(s: Builder, cfg: Config) -> None:
    d = s.space("residual", cfg.hidden_size)
    s.constant("is_decoder", cfg.is_decoder)
    s.leaf("embeddings.word_embeddings.weight", "v d", d=d)
    s.leaf("embeddings.position_embeddings.weight", "p d", d=d)
    s.leaf("embeddings.token_type_embeddings.weight", "y d", d=d)
    ln = s.norm("layer", "embeddings.LayerNorm", d, cfg.layer_norm_eps, blocked=ON_SKIP)
    for i, l in enumerate(s.layers("encoder.layer.{}", cfg.num_hidden_layers)):
        attention(l, cfg, d, norm=ln, inner="attention.self", output="attention.output.dense")
        ln = l.norm("layer", "attention.output.LayerNorm", d, cfg.layer_norm_eps, blocked=ON_SKIP)
        feed_forward(l, cfg, d, norm=ln)
        last = i == cfg.num_hidden_layers - 1
        blocked = (s.final_block("") if s.head.key is None else None) if last else ON_SKIP
        ln = l.norm("layer", "output.LayerNorm", d, cfg.layer_norm_eps, blocked=blocked)
    read_head(s, cfg, d, ln)


def read_head(s: Builder, cfg: Config, d: Axis, ln: str) -> None:
    """Sequence labels read the pooler, tokens a transform of their own; token labels read the stream itself."""
    if s.head.vocabulary:
        masked_lm(s, cfg, d, ln)
    elif s.head.pooled:
        assert s.head.key is not None
        e = pooler(s, d, norm=ln, size=cfg.hidden_size, activation="tanh", optional=False)
        s.root.linear(s.head.key, "e -> c", e=e.co)
        s.output("logits")
    else:
        s.readout(d, ln, "")
        if s.head.key is None:
            e = pooler(s, d, norm=ln, size=cfg.hidden_size, activation="tanh", optional=True)
            s.output("pooler_output", e)


def masked_lm(s: Builder, cfg: Config, d: Axis, ln: str) -> None:
    """dense, activation, LayerNorm, decoder.  A tied decoder makes the transform's space the residual stream itself."""
    root, decoder = s.root, "cls.predictions.decoder"
    embedding = s.prefix + "embeddings.word_embeddings.weight"
    e = d if s.tied else s.space("mlm", cfg.hidden_size)
    s.touch(e, elementwise(cfg.hidden_act))
    root.linear("cls.predictions.transform.dense", "d -> e", norm=ln, d=d.co, e=e)
    blocked = f"its reader {decoder}.weight is tied to {embedding}" if s.tied else None
    ln = root.norm("layer", "cls.predictions.transform.LayerNorm", e, cfg.layer_norm_eps, blocked=blocked)
    if s.tied:
        s.touch(e, tied())
        s.tie(f"{decoder}.weight", embedding)
        root.leaf("cls.predictions.bias", "v")
        s.mirror(f"{decoder}.bias", "cls.predictions.bias", tied=True)
    else:
        root.linear(decoder, "e -> v", norm=ln, e=e.co)
        s.mirror("cls.predictions.bias", f"{decoder}.bias", tied=False)
    s.output("logits")
