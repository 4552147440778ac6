"""What the rotation of the residual stream is fitted to in attention: one D×D cross moment of circuits.

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
from onebasin.match.circuits import by_head, circuits_of, complex_pairs, gram, side
from onebasin.match.pair import Maps, Pair
from onebasin.spec import Leaf


def circuit_cross(pair: Pair, maps: Maps, space: str, emphasis: Mapping[str, float]) -> Tensor:
    """Σ w C over both sides of all circuits; `pair` and `maps` give B in the basis found so far."""
    total = zero_moment(pair, space)
    for inner, w in emphasis.items():
        total += w * cross_of(pair, maps, space, inner, lambda leaf: True)
    return total


def cross_of(pair: Pair, maps: Maps, space: str, inner: str, fitted: Callable[[Leaf], bool]) -> Tensor:
    """C over the fitted leaves of both sides of the circuits in `inner`."""
    a, b = (circuits_of(pair, maps, inner, of_b=of_b) for of_b in (False, True))
    middles = {Rep.VEC: gram(a.right, b.right, a.rotary), Rep.COV: gram(a.left, b.left, a.rotary)}
    total = zero_moment(pair, space)
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


def zero_moment(pair: Pair, space: str) -> Tensor:
    size = pair.spec.spaces[space].size
    return next(iter(pair.a.values())).new_zeros(size, size)
