"""Which embedding R^n -> R^m of each space keeps the model's function; found from two tables.  Free of torch.

Vectors x arrive as v·Jx and covectors as c·Jx, where J places coordinates.  What reads a space still sees what was
written to it if v·c·JᵀJ = I.  What else a space needs is in the operations that touch it:

    norm          mean squares stay the same if v = √(m/n); then c = √(n/m)  (first paper, E).  With another
                  eps' = e²·eps the norms see the same if the writers are stretched by e as well.
    LayerNorm     the mean stays the same, for in canonical form the stream has mean zero.  Where the stream cannot be
                  centred (a gain that stays, a unit-wise function), every coordinate is repeated m/n times: v = 1.
    softmax       divides by √d, d the width of a head: queries take √(d'/d).
    rotary        θ^(−2j/n) is a frequency of the larger head only for m = k n: pair j becomes pair k j.
    query/key     mean squares inside heads, or over all of them: queries and keys take the roots of m/n, the product of
    norms         the gains what they took and what softmax needs.
    inside heads  zero coordinates.
    units, heads  zero ones; or copies, with what reads them shared out among the copies (semi-permutations): evenly,
                  or as a method finds best (`fills`).
    slopes        follow from the number of heads, which stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from onebasin.errors import Incompatible, NotExpressible, OnebasinError
from onebasin.families import ORTHOGONAL, ORTHOGONAL_ONES, Rep
from onebasin.spec import ModelSpec
from onebasin.spec.ops import elementwise, expert_sum, gain_product, head_sum, joint_qk_norm, qk_norm, rope
from onebasin.widening.heads import check_more, check_scaled, normed_growth, padded, query_factors, rotary, turned

EXTRA = ("zero", "split")  # what a larger model's additional units and heads are


@dataclass(frozen=True)
class Embedding:
    """`source[i]` is the coordinate that place i takes, −1 for none.  `vector`, `covector` are the factors v and c;
    `stretch` is e, for what writes to a stream.  Copies have factors of their own: vectors `scales`, covectors `parts`.
    """

    source: tuple[int, ...]
    vector: float = 1.0
    covector: float = 1.0
    stretch: float = 1.0
    scales: tuple[float, ...] | None = None
    parts: tuple[float, ...] | None = None

    def factor(self, rep: Rep) -> float:
        """What a tensor axis of this representation is multiplied by; gains, gates and heads of queries by nothing."""
        return {Rep.VEC: self.vector, Rep.COV: self.covector, Rep.PERM: 1.0}[rep]

    def factors(self, rep: Rep) -> tuple[float, ...] | None:
        """What each place is multiplied by besides, if places differ."""
        return {Rep.VEC: self.scales, Rep.COV: self.parts, Rep.PERM: None}[rep]


def embeddings(small: ModelSpec, large: ModelSpec, extra: str = EXTRA[0]) -> dict[str, Embedding]:
    """One embedding per space of two tables in canonical form, or the reason why there is none."""
    if extra not in EXTRA:
        raise OnebasinError(
            "There is no such way to fill a larger model",
            expected=" or ".join(EXTRA),
            found=extra,
            next_step="take one of these",
        )
    for name, value in small.constants.items():
        if large.constants.get(name) != value:
            raise Incompatible(
                f"Widening cannot change this setting: {name}",
                expected=value,
                found=large.constants.get(name),
                next_step="change sizes alone",
            )
    if small.spaces.keys() != large.spaces.keys():
        raise NotExpressible(
            "A model of these sizes has other spaces",
            expected=", ".join(small.spaces.keys() - large.spaces.keys()) or "no other",
            found=", ".join(large.spaces.keys() - small.spaces.keys()) or "fewer",
            next_step="leave the head width as it is: it decides which part of a head is rotated",
        )
    _check_labelled(small, large)
    scale = query_factors(small, large)
    return {name: _embedding(name, small, large, scale.get(name, 1.0), extra) for name in small.spaces}


def _check_labelled(small: ModelSpec, large: ModelSpec) -> None:
    """What is labelled has the length that it had; folded gains label nothing."""
    gains = {x.gain for x in small.gains}
    for leaf in (leaf for name, leaf in small.leaves.items() if name not in gains):
        other = large.leaves[leaf.name]
        lengths = [(stop - start) for _, axis, start, stop in leaf.axes if axis is None]
        found = [(stop - start) for _, axis, start, stop in other.axes if axis is None]
        if lengths != found:
            raise NotExpressible(
                "A model of these sizes stores another table, which follows from nothing that is stored here",
                tensor=leaf.name,
                expected=lengths,
                found=found,
                next_step="leave the head width as it is: this table has a column for each coordinate of a head",
            )


def _embedding(name: str, small: ModelSpec, large: ModelSpec, query_factor: float, extra: str) -> Embedding:
    n, m, ops = small.spaces[name].size, large.spaces[name].size, small.ops(name)
    if m < n:
        raise NotExpressible(
            "Widening cannot make a space smaller",
            space=name,
            expected=f"{n} or more",
            found=m,
            next_step="give sizes that are at least those of the model; groups of query heads are kept as they are",
        )
    if any(norm.space == name for norm in small.norms.values()):
        return _stream(name, small, large)
    source = rotary(name, n, m, rope() in ops) if turned(small, name) else padded(n, m)
    if qk_norm() in ops or joint_qk_norm() in ops:
        return Embedding(source, *normed_growth(name, small, large))
    if gain_product() in ops:
        of_queries, of_keys = normed_growth(name, small, large)
        if elementwise("clip") in ops:  # which sees each of the two, and not their product alone
            check_scaled(small, name, query_factor)
            return Embedding(source, 1 / of_queries, 1 / of_keys)
        return Embedding(source, 1.0, query_factor / (of_queries * of_keys))
    if expert_sum() in ops and m != n:
        raise NotExpressible(
            "The number of experts cannot change",
            space=name,
            expected=n,
            found=m,
            next_step="leave it as it is: the softmax of a router shares out every token among all experts",
        )
    if head_sum() in ops or small.spaces[name].base not in small.heads:
        split = extra == "split" or _returned(small, name)
        if m > n:
            check_more(small, name, split)
        return even_split(n, m) if split else Embedding(source)
    check_scaled(small, name, query_factor)
    return Embedding(source, query_factor)


def _stream(name: str, small: ModelSpec, large: ModelSpec) -> Embedding:
    """A space that norms read."""
    n, m = small.spaces[name].size, large.spaces[name].size
    stretch = _stretch(name, small, large)
    if repeats(small, name):
        if m % n:
            raise NotExpressible(
                "The space can only be widened by repeating every coordinate equally often",
                space=name,
                expected=f"a multiple of {n}",
                found=m,
                next_step="give a multiple: LayerNorm sees the mean, and gains or units tell the coordinates apart",
            )
        return Embedding(tuple(i % n for i in range(m)), 1.0, n / m, stretch)
    return Embedding(padded(n, m), math.sqrt(m / n), math.sqrt(n / m), stretch)


def _free(spec: ModelSpec, space: str) -> bool:
    """Whether norms alone read the space and all their gains are folded: its writers decide its mean and its length."""
    kept = any(norm.blocked or not norm.unit for norm in spec.norms.values() if norm.space == space)
    return not kept and not spec.raw_readers(space) and spec.family(space) in (ORTHOGONAL, ORTHOGONAL_ONES)


def repeats(spec: ModelSpec, space: str) -> bool:
    """Whether LayerNorm reads the space, and its writers alone cannot centre it."""
    layer = any(norm.space == space and norm.kind == "layer" for norm in spec.norms.values())
    return layer and not _free(spec, space)


def _stretch(name: str, small: ModelSpec, large: ModelSpec) -> float:
    """e with eps' = e² eps for every norm that reads the space."""
    pairs = {(norm.eps, large.norms[x].eps) for x, norm in small.norms.items() if norm.space == name}
    if all(a == b for a, b in pairs):
        return 1.0
    if not _free(small, name) or len(pairs) > 1 or min(min(pair) for pair in pairs) <= 0:
        raise NotExpressible(
            "Another eps needs a stream that can be stretched, and this one cannot",
            space=name,
            expected=sorted(a for a, _ in pairs),
            found=sorted(b for _, b in pairs),
            next_step="give both models the same eps: a norm's own output stays in the stream, or an eps is zero",
        )
    ((before, after),) = pairs
    return math.sqrt(after / before)


def shareable(small: ModelSpec, large: ModelSpec) -> list[str]:
    """The spaces of units and heads where what a larger model has more may be copies of what is there."""
    found = []
    for name, space in small.spaces.items():
        grows, inside = large.spaces[name].size > space.size, space.base is not None
        fixed = any(norm.space == name for norm in small.norms.values()) or expert_sum() in small.ops(name)
        if not grows or inside or fixed or _returned(small, name):
            continue
        try:
            check_more(small, name, split=True)
        except NotExpressible:
            continue
        found.append(name)
    return found


def _returned(spec: ModelSpec, space: str) -> bool:
    """Whether the model returns vectors of the space: they must be known again whatever was asked for."""
    return any(axis is not None and axis.space == space for axis in spec.outputs.values())


def even_split(n: int, m: int) -> Embedding:
    """Place i takes coordinate i mod n."""
    return Embedding(tuple(i % n for i in range(m)), parts=tuple(1 / len(range(i % n, m, n)) for i in range(m)))
