"""Gains of norms: how a norm and what reads it share their product.

    W (γ ⊙ n) = (W diag(1/s)) (s ⊙ γ ⊙ n)   for every s > 0

Folding puts all of γ into W.  Each model may be written with any s, and the average of two depends on the choice:

    ½(W_A + W_B diag(1/s)) ((1 + s)/2 ⊙ n),   that is, weights (1 + s)/4 of A's reader and (1 + 1/s)/4 of B's

in every coordinate.  Their sum is at least one: gains make good some of what averaging takes from the size of weights.
Only the ratio of two gains counts, so the first model keeps its own.  The coordinates are those of A's basis, or of one
that both models are rotated into: gains do not commute with rotations, so there A moves for good.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from onebasin.families import Rep
from onebasin.maps.indexed import along
from onebasin.spec import ModelSpec

UNTOUCHED = None, ""


@dataclass(frozen=True)
class Gained:
    """Axis `dim` of a stacked leaf is that of what a norm hands on: its own, or that of what `reads` it."""

    dim: int
    reads: bool

    def __call__(self, factors: Tensor, x: Tensor) -> Tensor:
        """`factors` (L, d) of the norms' gains act on `x` (L, ...)."""
        return x * along(1 / factors if self.reads else factors, x.ndim, self.dim, 0)


def touched_by(spec: ModelSpec, norms: Iterable[str]) -> dict[str, tuple[Gained, str]]:
    """The leaves that change with the gains of these norms, and with which."""
    found: dict[str, tuple[Gained, str]] = {}
    for name in norms:
        norm = spec.norms[name]
        found |= {leaf: (Gained(1, reads=False), name) for leaf in (norm.gain, norm.bias) if leaf is not None}
        for reader in spec.readers(name):
            dim = spec.leaves[reader.weight].dim(norm.space, Rep.COV)
            assert dim is not None
            found[reader.weight] = Gained(dim + 1, reads=True), name
    return found
