"""What models with an encoder and a decoder share: attention within a stream, and from one to the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onebasin.spec import Axis, Builder
from onebasin.spec.ops import bilinear, head_sum


@dataclass(frozen=True)
class Attend:
    """Heads of width k; `names` of the query, key, value and output maps, and which of them have a bias.

    `scaled`: scores are divided by √k.
    """

    heads: int
    width: int
    names: tuple[str, str, str, str]
    bias: tuple[bool, bool, bool, bool] = (True, True, True, True)
    scaled: bool = True


def attention(
    l: Builder, how: Attend, reads: tuple[Axis, str | None], writes: Axis, *, key: str, name: str = "",
    shared: Axis | None = None, read: tuple[Axis, str | None] | None = None,
) -> None:  # fmt: skip
    """Attention under `key`.  `reads` are the stream of the queries and the norm behind it, `read` those of keys and
    values where they are others.  `shared` is the space of heads where layers share it; `name` tells spaces apart."""
    h = shared or l.space(f"{name}heads", how.heads, head_sum())
    qk = l.space(f"{name}qk", how.width, bilinear(), base=h)
    ov = l.space(f"{name}ov", how.width, base=h)

    def mapped(which: int, stream: tuple[Axis, str | None], **where: Axis) -> str:
        given: dict[str, Any] = {"norm": stream[1], "bias": how.bias[which], "d": stream[0].co, **where}
        return l.linear(f"{key}.{how.names[which]}", "d -> (h k)", **given)

    q = mapped(0, reads, h=h.perm, k=qk)
    k = mapped(1, read or reads, h=h.perm, k=qk.co)
    v = mapped(2, read or reads, h=h, k=ov)
    o = l.linear(f"{key}.{how.names[3]}", "(h k) -> d", bias=how.bias[3], h=h.co, k=ov.co, d=writes)
    l.attention(f"{name}attention", queries=[q], keys=[k], value=v, output=o, scaled=how.scaled)
