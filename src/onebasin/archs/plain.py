"""What models share whose parts are plain linear maps: attention with a key for every query head, FFNs gated or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onebasin.spec import Axis, Builder
from onebasin.spec.ops import Op, bilinear, elementwise, gated, head_sum

Names = tuple[str, str, str, str]
EVERY = (True,) * 4


def attention(
    l: Builder, d: Axis, *, norm: str | None, heads: int | Axis, width: int, names: Names,
    bias: Sequence[bool] = EVERY, turn: Op | None = None, turned: int | None = None, interleaved: bool = False,
    scaled: bool = True, name: str = "", memory: tuple[Axis, str | None] | None = None,
) -> str:  # fmt: skip
    """`names` of the maps of queries, keys, values and outputs, and which have a `bias`; returns the last of them.

    `heads` is their number, or their space where layers share it.  `turn` are rotary positions on the first `turned`
    coordinates of a head (all if None), neighbours in pairs if `interleaved`.  Keys and values come from `memory`, a
    stream and the norm behind it, where that is another; `name` tells the spaces of several attentions apart.
    """
    h = heads if isinstance(heads, Axis) else l.space(f"{name}heads", heads, head_sum())
    positions, first = ([turn], turned or width) if turn else ([], width)
    whole = first == width
    qk = l.space(f"{name}qk" if whole else f"{name}qk_rotary", first, bilinear(), *positions, base=h)
    parts = [("" if whole else "rotary", qk.in_turns if interleaved else qk)]
    if not whole:
        parts.append(("pass", l.space(f"{name}qk_pass", width - first, bilinear(), base=h).at(first)))
    ov = l.space(f"{name}ov", width, base=h)
    stream, behind = memory or (d, norm)
    reads: dict[str, Any] = {"maps": "d -> (h k)", "norm": behind, "d": stream.co}
    asks: dict[str, Any] = {"maps": "d -> (h k)", "norm": norm, "d": d.co, "h": h.perm}
    queries = [l.linear(names[0], part=part, bias=bias[0], k=qk, **asks) for part, qk in parts]
    keys = [l.linear(names[1], part=part, bias=bias[1], h=h.perm, k=qk.co, **reads) for part, qk in parts]
    v = l.linear(names[2], bias=bias[2], h=h, k=ov, **reads)
    o = l.linear(names[3], "(h k) -> d", bias=bias[3], h=h.co, k=ov.co, d=d)
    l.attention(f"{name}attention", queries=queries, keys=keys, value=v, output=o, scaled=scaled)
    return o


def ffn(
    l: Builder, d: Axis, *, norm: str | None, names: tuple[str, str], size: int, activation: str, bias: bool = True
) -> str:
    """`names` of the maps into and out of the hidden units; returns the second."""
    f = l.space("ffn", size, elementwise(activation))
    l.linear(names[0], "d -> f", norm=norm, bias=bias, d=d.co, f=f)
    return l.linear(names[1], "f -> d", bias=bias, f=f.co, d=d)


GATED = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")


def gated_ffn(
    l: Builder, d: Axis, *, norm: str | None, size: int, activation: str, bias: bool = False,
    names: tuple[str, str, str] = GATED, space: str = "ffn",
) -> str:  # fmt: skip
    """`names` of the maps to the gates, into and out of the hidden units; returns the third."""
    f = l.space(space, size, gated(activation))
    l.linear(names[0], "d -> f", norm=norm, bias=bias, d=d.co, f=f.perm)
    l.linear(names[1], "d -> f", norm=norm, bias=bias, d=d.co, f=f)
    return l.linear(names[2], "f -> d", bias=bias, f=f.co, d=d)
