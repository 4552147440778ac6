"""What encoders share: attention and FFN as plain linear maps, layers with norms behind them, pooler, masked head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onebasin.archs.registry import Config
from onebasin.spec import Axis, Builder
from onebasin.spec.ops import Op, bilinear, elementwise, head_sum, tied

Names = tuple[str, str, str, str]
ON_SKIP = "post-norm: its output is also the skip path, which has no linear map that could take the gain"
STORED: Names = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")


def attention(
    l: Builder, cfg: Config, d: Axis, *, norm: str | None, names: Names = STORED,
    bias: Sequence[bool] = (True,) * 4, positions: Sequence[Op] = (), interleaved: bool = False,
    heads: Axis | None = None,
) -> str:  # fmt: skip
    """Heads of width k with query, key, value and output maps of these names; returns the last of them.

    `positions` are operations on queries and keys; pairs that turn together are neighbours if `interleaved`.  `heads`
    is their space where layers share it.
    """
    width = cfg.hidden_size // cfg.num_attention_heads
    h = heads or l.space("heads", cfg.num_attention_heads, head_sum())
    qk = l.space("qk", width, bilinear(), *positions, base=h)
    qk = qk.in_turns if interleaved else qk
    ov = l.space("ov", width, base=h)
    reads: dict[str, Any] = {"maps": "d -> (h k)", "norm": norm, "d": d.co}
    q = l.linear(names[0], bias=bias[0], h=h.perm, k=qk, **reads)
    k = l.linear(names[1], bias=bias[1], h=h.perm, k=qk.co, **reads)
    v = l.linear(names[2], bias=bias[2], h=h, k=ov, **reads)
    o = l.linear(names[3], "(h k) -> d", bias=bias[3], h=h.co, k=ov.co, d=d)
    l.attention("attention", queries=[q], keys=[k], value=v, output=o)
    return o


def feed_forward(
    l: Builder, size: int, activation: str, d: Axis, *, norm: str,
    names: tuple[str, str] = ("intermediate.dense", "output.dense"), bias: bool = True,
) -> str:  # fmt: skip
    """Two maps with a function of each unit between them; returns the second."""
    f = l.space("ffn", size, elementwise(activation))
    l.linear(names[0], "d -> f", norm=norm, bias=bias, d=d.co, f=f)
    return l.linear(names[1], "f -> d", bias=bias, f=f.co, d=d)


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
        feed_forward(l, cfg.intermediate_size, cfg.hidden_act, d, norm=ln)
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
