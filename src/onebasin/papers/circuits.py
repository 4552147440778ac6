"""The first paper fits the rotation of the residual stream to circuits: one D×D cross moment of them.

For the left side of the circuits E = Lᵀ R, with B in the basis found so far,

    C = Σ_heads E_A E_Bᵀ = Σ_heads L_Aᵀ (R_A R_Bᵀ) L_B,

and likewise for the right side.  The Gram matrix in the middle is d×d, and the heads are summed by one product.  The
polar factor of C turns B further from where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from onebasin.families import Rep
from onebasin.match.circuits import by_head, circuits_of, complex_pairs, gram, inner_spaces, side
from onebasin.match.pair import Maps, Pair
from onebasin.spec import Leaf


def circuit_cross(pair: Pair, maps: Maps, space: str, emphasis: Mapping[str, float]) -> Tensor:
    """Σ w C over both sides of all circuits; `pair` and `maps` give B in the basis found so far."""
    total = _zero(pair, space)
    for inner, w in emphasis.items():
        total += w * _cross(pair, maps, space, inner, lambda leaf: True)
    return total


def p1_code_cross(pair: Pair, maps: Maps, space: str, emphasis: Mapping[str, float]) -> Tensor:
    """Σ w C over circuits as P1's code stores them: the query side of QK and the output side of OV.

    The code writes the circuits of h heads as one block [√(F/d) QK, I, I] of 3hF columns for queries, keys and values
    (F = D + 1, or D without biases; the root makes up for the scale 1/√F of heads that wide) and one block OV of hF
    columns.  The identities stand for the other sides: they add 2h I, which damps the step.
    """
    spec, total = pair.spec, _zero(pair, space)
    queries = {spec.linears[name].weight for attention in spec.attentions for name in attention.queries}
    outputs = {spec.linears[attention.output].weight for attention in spec.attentions}
    scores = [inner for inner in emphasis if any(leaf.name in queries for leaf in side(spec, inner, Rep.VEC))]
    for inner, w in emphasis.items():
        found = _cross(pair, maps, space, inner, lambda leaf: leaf.name in queries | outputs)
        if inner in scores:
            of_a, size = circuits_of(pair, {}, inner, of_b=False), spec.spaces[inner].size
            parts = [x for x in inner_spaces(spec, spec.spaces[inner].base) if x in scores]
            width = sum(spec.spaces[x].size for x in parts)  # d; more than `size` where part of a head is rotary
            found *= of_a.features / width
            found.diagonal().add_(2 * of_a.square.numel() * size / width)
            found /= 3
        total += w * found
    return total


def _cross(pair: Pair, maps: Maps, space: str, inner: str, fitted: Callable[[Leaf], bool]) -> Tensor:
    """C over the fitted leaves of both sides of the circuits in `inner`."""
    a, b = (circuits_of(pair, maps, inner, of_b=of_b) for of_b in (False, True))
    middles = {Rep.VEC: gram(a.right, b.right, a.rotary), Rep.COV: gram(a.left, b.left, a.rotary)}
    total = _zero(pair, space)
    for rep, middle in middles.items():
        for leaf in side(pair.spec, inner, rep):
            if leaf.dim(space) is not None and fitted(leaf):
                ours = by_head(pair.spec, leaf, pair.a[leaf.name], inner)
                theirs = by_head(pair.spec, leaf, pair.moved(leaf, maps), inner)
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


def _zero(pair: Pair, space: str) -> Tensor:
    size = pair.spec.spaces[space].size
    return next(iter(pair.a.values())).new_zeros(size, size)
