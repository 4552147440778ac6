"""What heads need to be more or wider: rotary frequencies, the scale of scores, norms of queries and keys."""

from __future__ import annotations

import math

from onebasin.errors import NotExpressible
from onebasin.families import Rep
from onebasin.spec import ModelSpec
from onebasin.spec.ops import elementwise, head_slopes, head_sum, joint_qk_norm, qk_norm, rope


def padded(n: int, m: int) -> tuple[int, ...]:
    """The coordinates as they are, and then none."""
    return (*range(n), *[-1] * (m - n))


def turned(spec: ModelSpec, space: str) -> bool:
    """Whether the space has rotary positions."""
    return any(op in spec.ops(space) for op in (rope(), rope(False)))


def rotary(name: str, n: int, m: int, geometric: bool) -> tuple[int, ...]:
    """Pairs are (j, j + n/2); pair j goes to k j, where its frequency θ^(−2j/n) = θ^(−2kj/m) is."""
    if m == n:
        return padded(n, m)
    if m % n or not geometric:
        raise NotExpressible(
            "The rotary frequencies of the heads are not among those of the wider ones",
            space=name,
            expected=f"a multiple of {n}" if geometric else n,
            found=m,
            next_step="give a head width that is an integer multiple, or leave it as it is",
        )
    k, source = m // n, [-1] * m
    for j in range(n // 2):
        source[k * j], source[k * j + m // 2] = j, j + n // 2
    return tuple(source)


def query_factors(small: ModelSpec, large: ModelSpec) -> dict[str, float]:
    """√(d'/d) for the spaces of queries, where scores are divided by the root of the head width."""
    found = {}
    for attention, other in zip(small.attentions, large.attentions, strict=True):
        leaves = (small.leaves[small.linears[name].weight] for name in attention.queries)
        spaces = [axis.space for leaf in leaves for _, axis in leaf.spaces() if axis.rep is Rep.VEC]
        widths = [sum(spec.spaces[name].size for name in spaces) for spec in (small, large)]
        if attention.scaled and other.scaled:
            gains = [attention.gains] if attention.gains else []
            found.update(dict.fromkeys([*spaces, *gains], math.sqrt(widths[1] / widths[0])))
    return found


def normed_growth(name: str, small: ModelSpec, large: ModelSpec) -> tuple[float, float]:
    """√(m/n) of what a norm of queries and one of keys take the mean over; `name` is their space or that of the gains.

    Gains with a base are those of a norm over all heads.
    """
    base = small.spaces[name].base
    joint = base is not None and qk_norm() not in small.ops(name)
    others = [x for x, space in small.spaces.items() if joint and space.base == base and head_sum() in small.ops(x)]
    keys = [name, *([str(base)] if joint else [])]
    return _root(small, large, [*keys, *others]), _root(small, large, keys)


def _root(small: ModelSpec, large: ModelSpec, spaces: list[str]) -> float:
    return math.sqrt(math.prod(large.spaces[x].size / small.spaces[x].size for x in spaces))


def check_more(small: ModelSpec, name: str, split: bool) -> None:
    """Refuse more heads where their number decides what they do, and copies of them where these would count."""
    heads = {name, small.spaces[name].base} if head_sum() in small.ops(name) else set()
    joint = any(joint_qk_norm() in small.ops(x) for x, space in small.spaces.items() if space.base in heads - {None})
    if head_slopes() in small.ops(name):
        what, step = "The slopes of heads follow from their number", "leave the number of heads as it is"
    elif joint and split:
        what, step = "Copies of heads would count in the norm over all heads", "fill with zero heads"
    else:
        return
    raise NotExpressible(what, space=name, found=", ".join(op.name for op in small.ops(name)), next_step=step)


def check_scaled(small: ModelSpec, name: str, factor: float) -> None:
    """Refuse a factor on queries that are clipped."""
    if factor != 1 and elementwise("clip") in small.ops(name):
        what = "Queries that are clipped cannot be scaled, as wider heads would need"
        raise NotExpressible(what, space=name, found="clip", next_step="leave the head width as it is")
