"""What encoders share: attention as most of them have it, layers with norms behind them, pooler, masked head."""

from __future__ import annotations

from typing import Any

from onebasin.archs import plain
from onebasin.archs.plain import Names
from onebasin.archs.registry import Config
from onebasin.spec import Axis, Builder, Head
from onebasin.spec.ops import elementwise, tied

ON_SKIP = "post-norm: its output is also the skip path, which has no linear map that could take the gain"
STORED: Names = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")
UNITS = ("intermediate.dense", "output.dense")


def text_heads(name: str, decoder: str) -> dict[str, Head]:
    """The classes of a model of texts: bare, two with a head of words, labels of a text and of its tokens."""
    words = Head(decoder, bias=True, vocabulary=True)
    return {
        f"{name}Model": Head(),
        f"{name}ForMaskedLM": words,
        f"{name}ForCausalLM": words,
        f"{name}ForSequenceClassification": Head("classifier.out_proj", bias=True, pooled=True),
        f"{name}ForTokenClassification": Head("classifier", bias=True),
    }


def attention(l: Builder, cfg: Config, d: Axis, *, norm: str | None, names: Names = STORED, **how: Any) -> str:
    """`plain.attention` with the number of heads, and their width, that the configuration usually says."""
    heads = cfg.num_attention_heads
    return plain.attention(l, d, norm=norm, width=cfg.hidden_size // heads, names=names, **{"heads": heads, **how})


def embedded(s: Builder, cfg: Config, d: Axis, *tables: tuple[str, str]) -> tuple[Axis, str | None]:
    """Tables that are summed and normalised; where they are narrower than the stream, a linear map follows.

    Returns the space of the tables, and the norm that wrote the stream, which is none behind a map.
    """
    narrow = getattr(cfg, "embedding_size", cfg.hidden_size) != cfg.hidden_size
    e = s.space("embedding", cfg.embedding_size) if narrow else d
    for letter, table in tables:
        s.leaf(f"embeddings.{table}.weight", f"{letter} e", e=e)
    ln = s.norm("layer", "embeddings.LayerNorm", e, cfg.layer_norm_eps, blocked=None if narrow else ON_SKIP)
    if narrow:
        s.linear("embeddings_project", "e -> d", norm=ln, e=e.co, d=d)
    return e, None if narrow else ln


def post_norm_layers(
    s: Builder, cfg: Config, d: Axis, ln: str | None, *, behind: str = "attention.output.LayerNorm", **how: Any
) -> str:
    """BERT's layers: a norm behind each half.  `ln` wrote the stream that the first reads; returns the last norm."""
    for i, l in enumerate(s.layers("encoder.layer.{}", cfg.num_hidden_layers)):
        attention(l, cfg, d, norm=ln, **how)
        ln = l.norm("layer", behind, d, cfg.layer_norm_eps, blocked=ON_SKIP)
        plain.ffn(l, d, norm=ln, names=UNITS, size=cfg.intermediate_size, activation=cfg.hidden_act)
        last = i == cfg.num_hidden_layers - 1
        ln = l.norm("layer", "output.LayerNorm", d, cfg.layer_norm_eps, blocked=last_block(s) if last else ON_SKIP)
    assert ln is not None
    return ln


def last_block(s: Builder) -> str | None:
    """Why the gain of a norm after the last layer must stay: the readers of all heads are maps of their own."""
    return s.final_block("") if s.head.key is None else None


def pooler(
    s: Builder, d: Axis, *, norm: str, size: int, activation: str, optional: bool, name: str = "pooler.dense"
) -> Axis:
    """The first token's state through one more layer; some bare models are saved without it."""
    e = s.space("pooler", size, elementwise(activation))
    s.linear(name, "d -> e", norm=norm, optional=optional, d=d.co, e=e)
    return e


def labels(s: Builder, e: Axis, norm: str | None = None) -> None:
    """The linear map to labels, from a space that a layer of the head writes."""
    assert s.head.key is not None
    s.root.linear(s.head.key, "e -> c", bias=s.head.bias, norm=norm, e=e.co)
    s.output("logits")


def transform(
    s: Builder, e: Axis, d: Axis, *, norm: str, activation: str, eps: float, names: tuple[str, str],
    blocked: str | None = None, bias: bool = True, offset: bool = True,
) -> str:  # fmt: skip
    """A head's own layer: dense from `d` to `e`, activation, LayerNorm, which it returns."""
    s.touch(e, elementwise(activation))
    s.root.linear(names[0], "d -> e", norm=norm, bias=bias, d=d.co, e=e)
    return s.root.norm("layer", names[1], e, eps, blocked=blocked, bias=offset)


def masked_lm(
    s: Builder, words: Axis, d: Axis, *, embedding: str, decoder: str, own_bias: str | None = None,
    decoder_bias: bool = True, **layer: Any,
) -> None:  # fmt: skip
    """`transform`, then a decoder.  A tied one makes the transform's space that of the embedding, `words`.

    `own_bias` is the name under which some heads hold the decoder's bias a second time.
    """
    embedding = s.prefix + embedding
    e = words if s.tied else s.space("mlm", s.size(words))
    ln = transform(s, e, d, blocked=f"its reader {decoder}.weight is tied to {embedding}" if s.tied else None, **layer)
    if s.tied:
        s.touch(e, tied())
        s.tie(f"{decoder}.weight", embedding)
        if decoder_bias:
            s.root.leaf(own_bias or f"{decoder}.bias", "v")
        if own_bias:
            s.mirror(f"{decoder}.bias", own_bias, tied=True)
    else:
        s.root.linear(decoder, "e -> v", bias=decoder_bias, norm=ln, e=e.co)
        if own_bias:
            s.mirror(own_bias, f"{decoder}.bias", tied=False)
    s.output("logits")
