"""Leaves that are as a file has them, and averages of such: made number by number, so that parts can be made alone.

Parts that stay in the cache of a core are several times as fast as whole tensors in float64, which the system has to
find memory for, page by page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from onebasin.checkpoint.store import Store
    from onebasin.spec import Leaf

PART = {"cpu": 2**17, "cuda": 2**22}
"""Numbers: few enough for a cache, many enough for a GPU."""


def in_parts(tensor: Tensor) -> Iterator[Tensor]:
    """The numbers of a tensor in their order, flat."""
    return iter(tensor.reshape(-1).split(PART[tensor.device.type]))


@dataclass(frozen=True)
class FromFiles:
    """The recipe of a leaf that is Σ share · what a file has; of one file as it is, there is no share."""

    leaf: Leaf
    tensors: tuple[tuple[Store, str], ...]  # by their names on disk
    shares: tuple[float, ...] = ()

    @classmethod
    def average(cls, recipes: Sequence[Any], shares: Sequence[float]) -> FromFiles | None:
        """The average of leaves that are as files have them, in one layout; of others none."""
        first = recipes[0]
        if all(isinstance(x, cls) and not x.shares and x.leaf == first.leaf for x in recipes):
            return cls(first.leaf, tuple(x.tensors[0] for x in recipes), tuple(shares))
        return None

    def __call__(self) -> Tensor:
        from onebasin.checkpoint.views import read_leaf

        return self._sum(read_leaf(store.read(name), self.leaf) for store, name in self.tensors)

    def parts(self) -> Iterator[Tensor]:
        """All of the stored tensor that the leaf is in, in float64, flat, part by part."""
        import torch

        for pieces in zip(*(in_parts(store.read(name)) for store, name in self.tensors), strict=True):
            yield self._sum(piece.to(torch.float64, copy=True) for piece in pieces)

    def _sum(self, numbers: Iterable[Tensor]) -> Tensor:
        """Each of `numbers` is made when the one before has been added, and belongs to nobody else."""
        each = iter(numbers)
        total = next(each)
        if self.shares:
            total *= self.shares[0]
            for share, more in zip(self.shares[1:], each, strict=True):
                total += more.mul_(share)
        return total

    def fills(self, recipes: Sequence[Any]) -> bool:
        """Whether leaves that share a stored tensor are together what `parts` makes."""
        own = self.tensors, self.shares, 0.0
        return all(isinstance(x, FromFiles) and (x.tensors, x.shares, x.leaf.plus) == own for x in recipes)
