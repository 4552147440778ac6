"""Heads by their circuits: what a head computes does not depend on the basis inside it.

A circuit is E = Lᵀ R with L, R of shape (d, D): queries and keys, or values and outputs.  Inner products of circuits
come from d×d cross-Gram matrices,  ⟨L₁ᵀR₁, L₂ᵀR₂⟩ = ⟨L₁L₂ᵀ, R₁R₂ᵀ⟩,  so nothing of size D×D is formed per head.  Under
rotary positions every frequency pair keeps its own complex circuit conj(l) ⊗ r, and only pair j meets pair j.

Shapes: h heads, g queries that share a head (1 without grouping), d inside a head, F features.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from onebasin import families as fam
from onebasin.families import Rep
from onebasin.match.pair import Maps, Pair
from onebasin.spec import Leaf, ModelSpec
from onebasin.spec.ops import head_sum


@dataclass(frozen=True)
class Circuits:
    """One circuit for each head of a model: left and right (h, g, d, F), g = 1 for a side that grouped queries share.

    With `rotary`, left and right are the complex numbers of the pairs, (h, g, d/2, F).
    """

    left: Tensor
    right: Tensor
    rotary: bool

    def inner(self, other: Circuits) -> Tensor:
        """⟨E, E'⟩ between all pairs of heads, (h, g, h', g')."""
        return self._paired(cross(self.left, other.left, self.rotary), cross(self.right, other.right, self.rotary))

    def inner_in_place(self, other: Circuits) -> Tensor:
        """⟨E, E'⟩ of every head with the head in its own place, (h, g)."""
        return self._paired(gram(self.left, other.left, self.rotary), gram(self.right, other.right, self.rotary))

    @cached_property
    def square(self) -> Tensor:
        """|E|² of every head, (h, g)."""
        return self.inner_in_place(self)

    @property
    def features(self) -> int:
        """F, that of the wider side: D, and one more if it has a bias."""
        return max(self.left.shape[-1], self.right.shape[-1])

    def _paired(self, left: Tensor, right: Tensor) -> Tensor:
        return (left.conj() * right).real.sum(-1) if self.rotary else (left * right).sum((-2, -1))


def gram(x: Tensor, y: Tensor, rotary: bool) -> Tensor:
    """X Yᵀ of every head with the head in its own place, (h, g, d, d); its pairs Σ conj(x) y if rotary, (h, g, d/2)."""
    return (x.conj() * y).sum(-1) if rotary else x @ y.mT


def cross(x: Tensor, y: Tensor, rotary: bool) -> Tensor:
    """The same between all pairs of heads: (h, g, i, j, d, d), or (h, g, i, j, d/2)."""
    if not rotary:
        return torch.einsum("hgkf,ijlf->hgijkl", x, y)
    return torch.einsum("hgkf,ijkf->hgijk", x.conj(), y)


def group_space(spec: ModelSpec, heads: str) -> str | None:
    """The space of query heads inside each key/value head, if heads are grouped."""
    inside = (name for name, space in spec.spaces.items() if space.base == heads)
    return next((name for name in inside if head_sum() in spec.ops(name)), None)


def inner_spaces(spec: ModelSpec, heads: str | None = None) -> list[str]:
    """The spaces inside heads (those of `heads`, or all)."""
    bases = {base for base in spec.heads if heads in (None, base)}
    groups = {group_space(spec, base) for base in bases}
    return [name for name, space in spec.spaces.items() if space.base in bases and name not in groups]


def is_rotary(spec: ModelSpec, inner: str) -> bool:
    """Whether the circuits of `inner` fall into frequency pairs."""
    return spec.family(inner) <= fam.ROTARY


def side(spec: ModelSpec, inner: str, rep: Rep) -> list[Leaf]:
    """The leaves on one side of the circuits of `inner`: VEC is left, COV right."""
    return [leaf for leaf in spec.touching[inner] if leaf.dim(inner, rep) is not None]


def by_head(spec: ModelSpec, leaf: Leaf, tensor: Tensor, inner: str) -> Tensor:
    """The tensor of a leaf as (h, g, d, F); g = 1 where grouped queries share it."""
    heads = str(spec.spaces[inner].base)
    group, dims = group_space(spec, heads), {axis.space: dim for dim, axis in leaf.spaces()}
    front = [dims[heads], *([dims[group]] if group in dims else []), dims[inner]]
    tensor = tensor.movedim(front, list(range(len(front))))
    tensor = tensor if group in dims else tensor.unsqueeze(1)
    return tensor.flatten(3) if tensor.ndim > 3 else tensor.unsqueeze(3)


def complex_pairs(x: Tensor) -> Tensor:
    """(h, g, d, F) as the complex numbers of its frequency pairs, (h, g, d/2, F)."""
    return torch.complex(*x.chunk(2, 2))


def circuits_of(pair: Pair, maps: Maps, inner: str, *, of_b: bool) -> Circuits:
    """The circuits of A, or of B under `maps`, in the space `inner`."""
    factors, rotary = [], is_rotary(pair.spec, inner)
    for rep in (Rep.VEC, Rep.COV):
        parts = [
            by_head(pair.spec, leaf, pair.moved(leaf, maps) if of_b else pair.a[leaf.name], inner)
            for leaf in side(pair.spec, inner, rep)
        ]
        joined = torch.cat(parts, 3)
        factors.append(complex_pairs(joined) if rotary else joined)
    return Circuits(factors[0], factors[1], rotary)


def circuit_distance(pair: Pair, maps: Maps, inner: str) -> float:
    """Σ over heads of |E_A − π(E_B)|², every head with the one that arrives in its place."""
    a, b = (circuits_of(pair, maps, inner, of_b=of_b) for of_b in (False, True))
    return max(0.0, float((a.square + b.square - 2 * a.inner_in_place(b)).sum()))
