"""MPNet: BERT whose layers share one table of biases for distances: heads are permuted in all layers together."""

from __future__ import annotations

from onebasin.archs.encoder import embedded, labels, masked_lm, pooler, post_norm_layers
from onebasin.archs.registry import FIELDS, Config, architecture
from onebasin.spec import Builder, Head, Tokens
from onebasin.spec.ops import head_sum

PADDING = 1  # the token behind whose id positions begin, in every model
MAPS = ("attention.attn.q", "attention.attn.k", "attention.attn.v", "attention.attn.o")


@architecture(
    "mpnet",
    prefix="mpnet.",
    heads={
        "MPNetModel": Head(),
        "MPNetForMaskedLM": Head("lm_head.decoder", bias=True, vocabulary=True),
        "MPNetForSequenceClassification": Head("classifier.out_proj", bias=True, pooled=True),
        "MPNetForTokenClassification": Head("classifier", bias=True),
    },
    inputs=lambda cfg: Tokens(cfg.vocab_size, cfg.max_position_embeddings - PADDING - 1, fixed=(PADDING,)),
    sizes=lambda cfg: {
        "v": cfg.vocab_size, "p": cfg.max_position_embeddings, "r": cfg.relative_attention_num_buckets,
        "c": cfg.num_labels,
    },
    fields={**FIELDS, "eps": "layer_norm_eps"},
    untouched=(r"embeddings\.position_ids$",),
)  # fmt: skip
def mpnet(s: Builder, cfg: Config) -> None:
    d = s.space("residual", cfg.hidden_size)
    _, ln = embedded(s, cfg, d, ("v", "word_embeddings"), ("p", "position_embeddings"))
    h = s.space("heads", cfg.num_attention_heads, head_sum())
    s.leaf("encoder.relative_attention_bias.weight", "r h", h=h.perm)
    ln = post_norm_layers(s, cfg, d, ln, behind="attention.LayerNorm", names=MAPS, heads=h)
    if s.head.vocabulary:
        masked_lm(s, d, d, norm=ln, embedding="embeddings.word_embeddings.weight", decoder="lm_head.decoder",
                  own_bias="lm_head.bias", activation="gelu", eps=cfg.layer_norm_eps,
                  names=("lm_head.dense", "lm_head.layer_norm"))  # fmt: skip
    elif s.head.pooled:
        labels(s, pooler(s.root, d, norm=ln, size=cfg.hidden_size, activation="tanh", optional=False,
                         name="classifier.dense"))  # fmt: skip
    else:
        s.readout(d, ln, "")
        if s.head.key is None:
            e = pooler(s, d, norm=ln, size=cfg.hidden_size, activation="tanh", optional=True)
            s.output("pooler_output", e)
