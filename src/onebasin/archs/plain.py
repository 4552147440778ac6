"""What decoders with one key/value head for every query head share: attention and the FFN as plain linear maps."""

from __future__ import annotations

from typing import Any

from onebasin.spec import Axis, Builder
from onebasin.spec.ops import bilinear, elementwise, head_sum, rope


def attention(
    l: Builder, d: Axis, *, norm: str | None, heads: int, width: int, names: tuple[str, str, str, str],
    qkv_bias: bool = False, o_bias: bool = True, turned: int = 0, scaled: bool = True,
) -> None:  # fmt: skip
    """`names` of the maps of queries, keys, values and outputs; the first `turned` coordinates have rotary positions.

    These lie in pairs of neighbours.
    """
    h = l.space("heads", heads, head_sum())
    parts = []
    if turned:
        parts.append(("rotary", l.space("qk_rotary", turned, bilinear(), rope(), base=h).in_turns))
    if turned < width:
        rest = l.space("qk_pass" if turned else "qk", width - turned, bilinear(), base=h)
        parts.append(("pass" if turned else "", rest.at(turned)))
    ov = l.space("ov", width, base=h)
    reads: dict[str, Any] = {"maps": "d -> (h k)", "norm": norm, "bias": qkv_bias, "d": d.co}
    query, key, value, output = names
    queries = [l.linear(query, part=part, h=h.perm, k=qk, **reads) for part, qk in parts]
    keys = [l.linear(key, part=part, h=h.perm, k=qk.co, **reads) for part, qk in parts]
    v = l.linear(value, h=h, k=ov, **reads)
    o = l.linear(output, "(h k) -> d", bias=o_bias, h=h.co, k=ov.co, d=d)
    l.attention("attention", queries=queries, keys=keys, value=v, output=o, scaled=scaled)


def ffn(
    l: Builder, d: Axis, *, norm: str | None, names: tuple[str, str], size: int, activation: str, bias: bool = True
) -> None:
    """`names` of the maps into and out of the hidden units."""
    f = l.space("ffn", size, elementwise(activation))
    l.linear(names[0], "d -> f", norm=norm, bias=bias, d=d.co, f=f)
    l.linear(names[1], "f -> d", bias=bias, f=f.co, d=d)
