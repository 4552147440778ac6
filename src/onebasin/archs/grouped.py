"""What decoders with grouped key/value heads share: attention in its variants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from onebasin.archs.registry import Config
from onebasin.spec import Axis, Builder
from onebasin.spec.ops import Op, bilinear, gain_product, head_sum, joint_qk_norm, qk_norm

WRITES = "its output is added to the stream, and no linear map follows that could take the gain"


@dataclass(frozen=True)
class Attend:
    """How an attention computes: on which positions, what else happens inside its heads, and what is stored.

    `turn` are the rotary positions, if there are any, on the first `rotated` coordinates of a head (all if None),
    stored as neighbours if `interleaved`.  `norm` of queries and keys is "head", "all" (over all heads) or none; its
    gains are stored less `plus`.  `on_qk`, `on_v` are further operations.
    """

    qkv_bias: bool = False
    o_bias: bool = False
    turn: Op | None = None
    rotated: int | None = None
    interleaved: bool = False
    norm: str = ""
    plus: float = 0.0
    on_qk: tuple[Op, ...] = ()
    on_v: tuple[Op, ...] = ()
    scaled: bool = True
    output: str = "o_proj"


def head_width(cfg: Config) -> int:
    return int(getattr(cfg, "head_dim", None) or cfg.hidden_size // cfg.num_attention_heads)


@dataclass
class Heads:
    """n key/value heads, each serving g query heads; one inside-head map per key/value head."""

    l: Builder
    cfg: Config
    how: Attend
    n: Axis = field(init=False)
    g: Axis = field(init=False)
    ov: Axis = field(init=False)
    parts: list[tuple[str, Axis]] = field(init=False)  # (name of the part, space) of queries and keys

    def __post_init__(self) -> None:
        l, how, queries = self.l, self.how, self.cfg.num_attention_heads
        groups, width = self.cfg.num_key_value_heads or queries, head_width(self.cfg)
        self.n = l.space("kv_heads", groups, head_sum())
        self.g = l.space("queries", queries // groups, head_sum(), base=self.n)
        rotated = width if how.rotated is None else how.rotated
        norms = {"head": (qk_norm(),), "all": (joint_qk_norm(),), "": ()}[how.norm]
        turned = (bilinear(), *([how.turn] if how.turn else []), *norms, *how.on_qk)
        if rotated == width:
            self.parts = [("", self._turned(l.space("qk", width, *turned, base=self.n)))]
        else:
            first = self._turned(l.space("qk_rotary", rotated, *turned, base=self.n))
            rest = l.space("qk_pass", width - rotated, bilinear(), *norms, *how.on_qk, base=self.n).at(rotated)
            self.parts = [("rotary", first), ("pass", rest)]
        self.ov = l.space("ov", width, *how.on_v, base=self.n)

    def _turned(self, axis: Axis) -> Axis:
        return axis.in_turns if self.how.interleaved else axis

    def gains(self) -> Axis | None:
        """Of norms of queries and keys: shared by all heads, or one set for each."""
        l, how = self.l, self.how
        if not how.norm:
            return None
        base = self.n if how.norm == "all" else None
        ops = (gain_product(), *([how.turn] if how.turn else []), *how.on_qk)
        gain = l.space("qk_gain", head_width(self.cfg), *ops, base=base)
        l.constant("eps of query/key norms", self.cfg.rms_norm_eps)
        if base is None:
            l.leaf("self_attn.q_norm.weight", "k", plus=how.plus, k=gain)
            l.leaf("self_attn.k_norm.weight", "k", plus=how.plus, k=gain.co)
        else:
            l.leaf("self_attn.q_norm.weight", "(n g k)", plus=how.plus, n=self.n.perm, g=self.g.perm, k=gain)
            l.leaf("self_attn.k_norm.weight", "(n k)", plus=how.plus, n=self.n.perm, k=gain.co)
        return gain


def attend(l: Builder, cfg: Config, d: Axis, norm: str | None, how: Attend) -> None:
    """Attention with maps q_proj, k_proj, v_proj and `how.output`, behind `norm`."""
    heads = Heads(l, cfg, how)
    n, g, ov = heads.n, heads.g, heads.ov
    reads: dict[str, Any] = {"norm": norm, "bias": how.qkv_bias, "d": d.co}
    queries, keys = [], []
    for part, qk in heads.parts:
        queries.append(l.linear("self_attn.q_proj", "d -> (n g k)", part=part, n=n.perm, g=g.perm, k=qk, **reads))
        keys.append(l.linear("self_attn.k_proj", "d -> (n k)", part=part, n=n.perm, k=qk.co, **reads))
    v = l.linear("self_attn.v_proj", "d -> (n k)", n=n, k=ov, **reads)
    o = l.linear(f"self_attn.{how.output}", "(n g k) -> d", bias=how.o_bias, n=n.co, g=g.co, k=ov.co, d=d)
    gains = heads.gains()
    l.attention("attention", queries=queries, keys=keys, value=v, output=o, scaled=how.scaled, gains=gains)
