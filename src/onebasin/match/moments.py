"""Second moments between A and B on one space: all that a family needs to solve for its best map.

A tensor axis in the space gives vectors a (of A) and b (of B, moved by every other map).  They enter as vectors, as
covectors, or only up to permutation, and each kind sums its own C = Σ a bᵀ, G_a = Σ a aᵀ, G_b = Σ b bᵀ.  Moments add,
so leaves, layers, batches, and weights with activations are one type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from onebasin.families import Rep
from onebasin.match.pair import Maps, Pair


@dataclass(frozen=True)
class Moment:
    """(f?, n, n) each."""

    cross: Tensor
    gram_a: Tensor
    gram_b: Tensor

    @classmethod
    def of(cls, a: Tensor, b: Tensor, weight: float = 1.0) -> Moment:
        """From vectors as columns, (f?, n, samples)."""
        return cls(weight * a @ b.mT, weight * a @ a.mT, weight * b @ b.mT)

    @property
    def overlap(self) -> Overlap:
        """The same of the vectors one by one."""
        return Overlap(self.cross, *(gram.diagonal(dim1=-2, dim2=-1) for gram in (self.gram_a, self.gram_b)))

    def __add__(self, other: Moment) -> Moment:
        return Moment(self.cross + other.cross, self.gram_a + other.gram_a, self.gram_b + other.gram_b)


@dataclass(frozen=True)
class Overlap:
    """What pairing vectors one by one needs of a moment: C = Σ a bᵀ (f?, n, n), and Σ a² and Σ b² of each (f?, n)."""

    cross: Tensor
    squares_a: Tensor
    squares_b: Tensor

    @classmethod
    def of(cls, a: Tensor, b: Tensor, weight: float = 1.0) -> Overlap:
        """From vectors as columns, (f?, n, samples)."""
        return cls(weight * a @ b.mT, weight * a.square().sum(-1), weight * b.square().sum(-1))

    def __add__(self, other: Overlap) -> Overlap:
        sums = self.cross + other.cross, self.squares_a + other.squares_a, self.squares_b + other.squares_b
        return Overlap(*sums)

    def to(self, device: torch.device | str) -> Overlap:
        return Overlap(self.cross.to(device), self.squares_a.to(device), self.squares_b.to(device))

    def zero(self) -> Overlap:
        """That of nothing, in the same shape."""
        return Overlap(*(torch.zeros_like(x) for x in (self.cross, self.squares_a, self.squares_b)))

    def correlation(self) -> Tensor:
        """C_ij / √(Σ a_i² Σ b_j²), zero where one is dead."""
        size = self.squares_a.unsqueeze(-1) * self.squares_b.unsqueeze(-2)
        return torch.where(size > 0, self.cross / size.clamp_min(torch.finfo(size.dtype).tiny).sqrt(), 0.0)


@dataclass(frozen=True)
class Moments:
    """One `Moment` for each representation that occurs on the space."""

    of: Mapping[Rep, Moment] = field(default_factory=dict)

    def __add__(self, other: Moments) -> Moments:
        both = dict(self.of)
        for rep, moment in other.of.items():
            both[rep] = both[rep] + moment if rep in both else moment
        return Moments(both)

    @classmethod
    def stack(cls, fibred: Sequence[Moments]) -> Moments:
        """Moments of several fibred spaces of one kind as those of one space with all their fibres."""

        def joined(rep: Rep) -> Moment:
            parts = [moments.get(rep) for moments in fibred]
            return Moment(*(torch.cat([getattr(p, x) for p in parts]) for x in ("cross", "gram_a", "gram_b")))

        return cls({rep: joined(rep) for rep in Rep if any(rep in moments.of for moments in fibred)})

    @property
    def cross(self) -> Tensor:
        """Σ C over all representations: what an orthogonal map, for which g^-T = g, is solved from."""
        return torch.stack([moment.cross for moment in self.of.values()]).sum(0)

    def get(self, rep: Rep) -> Moment:
        if rep in self.of:
            return self.of[rep]
        zero = torch.zeros_like(next(iter(self.of.values())).cross)
        return Moment(zero, zero, zero)


def columns(tensor: Tensor, dim: int, base_dim: int | None) -> Tensor:
    """The vectors along `dim` as columns: (n, rest), or (f, n, rest) with the fibres of `base_dim` first."""
    if base_dim is None:
        return tensor.movedim(dim, 0).flatten(1) if tensor.ndim > 1 else tensor[:, None]
    moved = tensor.movedim((base_dim, dim), (0, 1))
    return moved.flatten(2) if tensor.ndim > 2 else moved[..., None]


def paired_columns(
    pair: Pair, maps: Maps, space: str, emphasis: Mapping[str, float]
) -> Iterator[tuple[Rep, Tensor, Tensor, float]]:
    """(representation, columns of A, of B moved by all the other maps, emphasis) of every axis in `space`."""
    base = pair.spec.spaces[space].base
    for leaf in pair.spec.touching[space]:
        if leaf.name not in pair.a:
            continue
        where = {axis.space: dim for dim, axis in leaf.spaces()}
        for dim, axis in leaf.spaces():
            if axis.space != space or not emphasis[leaf.name]:
                continue
            base_dim = where[base] if base else None
            a = columns(pair.a[leaf.name], dim, base_dim)
            b = columns(pair.moved(leaf, maps, skip=dim), dim, base_dim)
            yield axis.rep, a, b, emphasis[leaf.name]


def weight_moments(pair: Pair, maps: Maps, space: str, emphasis: Mapping[str, float]) -> Moments:
    """The moments of every leaf axis in `space`, with B moved by all the other maps; fibres in order of arrival."""
    total = Moments()
    for rep, a, b, w in paired_columns(pair, maps, space, emphasis):
        total = total + Moments({rep: Moment.of(a, b, w)})
    return total


def overlaps(pair: Pair, maps: Maps, space: str, emphasis: Mapping[str, float]) -> dict[Rep, Overlap]:
    """What `weight_moments` says of the vectors one by one, in a third of the memory."""
    found: dict[Rep, Overlap] = {}
    for rep, a, b, w in paired_columns(pair, maps, space, emphasis):
        new = Overlap.of(a, b, w)
        found[rep] = found[rep] + new if rep in found else new
    return found


def cross_moment(pair: Pair, maps: Maps, space: str, emphasis: Mapping[str, float]) -> Tensor:
    """`weight_moments(...).cross` alone: all that an isometric family needs, at a third of the cost."""
    size = pair.spec.spaces[space].size
    total = next(iter(pair.a.values())).new_zeros(size, size)
    for _, a, b, w in paired_columns(pair, maps, space, emphasis):
        total.addmm_(a, b.mT, alpha=w)
    return total
