"""Tensors that are asked for again soon, such as a weight that its own bias is made with."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

MOST, FEW = 2**28, 32  # bytes, and tensors


@dataclass
class Recent:
    """The last few tensors that were made, `most` bytes of them; one that is in the making is waited for.

    They are not to be changed in place.
    """

    most: int = MOST
    kept: dict[Hashable, Future[Tensor]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def take(self, name: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """The tensor of this name: from before, or made now."""
        with self.lock:
            known = self.kept.pop(name, None)
            found = self.kept[name] = known or Future()  # the last one again
        if known is None:
            self._make(name, make, found)
        return found.result()

    def _make(self, name: Hashable, make: Callable[[], Tensor], found: Future[Tensor]) -> None:
        try:
            found.set_result(make())
        except BaseException as error:
            self._forget(name)
            found.set_exception(error)
            raise
        self._make_room()

    def _forget(self, name: Hashable) -> None:
        with self.lock:
            self.kept.pop(name, None)

    def _make_room(self) -> None:
        with self.lock:
            made = [(name, x.result().nbytes) for name, x in self.kept.items() if x.done() and not x.exception()]
            total = sum(nbytes for _, nbytes in made)
            for i, (name, nbytes) in enumerate(made):
                if total <= self.most and len(made) - i <= FEW:
                    break
                total -= nbytes
                del self.kept[name]
