"""What the rotation of the residual stream is fitted to in attention: one D×D cross moment of circuits.

For the left side of the circuits E = Lᵀ R, with B's right side moved along,

    C = Σ_heads E_A E_Bᵀ = Σ_heads L_Aᵀ (R_A R_Bᵀ) L_B,

and likewise for the right side.  The Gram matrix in the middle is d×d, and the heads are summed by one product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from onebasin.families import Rep
from onebasin.match.circuits import by_head, circuits_of, complex_pairs, gram, inner_spaces, side
from onebasin.match.pair import Maps, Pair
from onebasin.spec import ModelSpec


def circuit_cross(pair: Pair, maps: Maps, space: str, weight: Mapping[str, float]) -> Tensor:
    """Σ w C over both sides of all circuits."""
    total = _zero(pair, space)
    for inner, w in weight.items():
        total += w * _cross(pair, maps, space, inner, lambda leaf: True)
    return total


def p1_code_cross(pair: Pair, maps: Maps, space: str, weight: Mapping[str, float]) -> Tensor:
    """Σ w C over circuits as P1's code stores them: the query side of QK and the output side of OV.

    The code writes the circuits of h heads as one block [√(F/d) QK, I, I] of 3hF columns for queries, keys and values
    (F = D + 1, or D without biases; the root makes up for the scale 1/√F of heads that wide) and one block OV of hF
    columns.  The identities stand for the other sides: they add 2h times the map so far, which damps the step.
    """
    queries, outputs = _query_leaves(pair.spec), {pair.spec.linears[x.output].weight for x in pair.spec.attentions}
    total = _zero(pair, space)
    for inner, w in weight.items():
        found = _cross(pair, maps, space, inner, lambda leaf: leaf in queries | outputs)
        if _holds(pair.spec, inner, queries):
            heads = str(pair.spec.spaces[inner].base)
            parts = [pair.spec.spaces[x].size for x in inner_spaces(pair.spec, heads) if _holds(pair.spec, x, queries)]
            of_a = circuits_of(pair, {}, inner, of_b=False)
            share = pair.spec.spaces[inner].size / sum(parts)  # below one where part of a head is rotary
            damped = 2 * of_a.square.numel() * share * maps[space].dense()
            found = (of_a.features / sum(parts) * found + damped) / 3
        total += w * found
    return total


def _cross(pair: Pair, maps: Maps, space: str, inner: str, fitted: Callable[[str], bool]) -> Tensor:
    """C over the fitted leaves of both sides of the circuits in `inner`."""
    a, b = (circuits_of(pair, maps, inner, of_b=of_b) for of_b in (False, True))
    middles = {Rep.VEC: gram(a.right, b.right, a.rotary), Rep.COV: gram(a.left, b.left, a.rotary)}
    total = _zero(pair, space)
    for rep, middle in middles.items():
        for leaf in side(pair.spec, inner, rep):
            dim = leaf.dim(space)
            if dim is not None and fitted(leaf.name):
                ours = by_head(pair.spec, leaf, pair.a[leaf.name], inner)
                theirs = by_head(pair.spec, leaf, pair.moved(leaf, maps, skip=dim), inner)
                total += ours.flatten(0, 2).mT @ _through(middle, theirs, a.rotary).flatten(0, 2)
    return total


def _through(middle: Tensor, x: Tensor, rotary: bool) -> Tensor:
    """Gram matrices (h, g, d, d) times (h, g, d, D), or conj(s) z of every pair; shared sides take the sum over g."""
    if x.shape[1] == 1:
        middle = middle.sum(1, keepdim=True)
    if not rotary:
        return middle @ x
    turned = middle.conj().unsqueeze(-1) * complex_pairs(x)
    return torch.cat((turned.real, turned.imag), 2)


def _query_leaves(spec: ModelSpec) -> set[str]:
    return {spec.linears[name].weight for attention in spec.attentions for name in attention.queries}


def _holds(spec: ModelSpec, inner: str, leaves: set[str]) -> bool:
    return any(leaf.name in leaves for leaf in side(spec, inner, Rep.VEC))


def _zero(pair: Pair, space: str) -> Tensor:
    size = pair.spec.spaces[space].size
    return next(iter(pair.a.values())).new_zeros(size, size)
