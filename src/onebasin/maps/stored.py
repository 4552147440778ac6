"""A map as data: an immutable bundle of tensors, with or without fibres.

Shapes in this package: f fibres (one map per head), n = `source`, m = `target`.  (f?, m, n) has the leading axis f only
if the map is fibred.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Self

import torch
from torch import Tensor

from onebasin.errors import BadCheckpoint, LayoutMismatch


@dataclass(frozen=True, eq=False, repr=False)
class Stored(ABC):
    """The dataclass fields are tensors, all with the leading axis f or none."""

    _rank: ClassVar[int]  # axes of `_values` without fibres

    @property
    @abstractmethod
    def _values(self) -> Tensor:
        """The floating tensor that carries fibres, dtype and device."""

    @property
    @abstractmethod
    def _size(self) -> tuple[int, int]:
        """(n, m)."""

    @property
    def source(self) -> int:
        """n, where the map goes from R^n to R^m."""
        return self._size[0]

    @property
    def target(self) -> int:
        """m, where the map goes from R^n to R^m."""
        return self._size[1]

    @property
    def fibres(self) -> int | None:
        """f, or None for a single map."""
        return self._values.shape[0] if self._values.ndim > self._rank else None

    @property
    def dtype(self) -> torch.dtype:
        """The floating dtype of the map."""
        return self._values.dtype

    @property
    def device(self) -> torch.device:
        """Where the map lies."""
        return self._values.device

    def tensors(self) -> dict[str, Tensor]:
        """All that has to be saved, contiguous."""
        return {field.name: getattr(self, field.name).contiguous() for field in fields(self)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """The map that `tensors` came from."""
        expected = {field.name for field in fields(cls)}
        if set(tensors) != expected:
            raise BadCheckpoint(f"Not a stored {cls.__name__}.", expected=sorted(expected), found=sorted(tensors))
        return cls(**tensors)

    def to(self, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Self:
        """The same map in another floating dtype or on another device."""
        return self._each(lambda t: t.to(device or t.device, dtype if dtype and t.is_floating_point() else t.dtype))

    def take(self, index: Tensor | Sequence[int] | slice) -> Self:
        """The fibred map whose fibre i is fibre index[i] of this one; those of a slice without waiting for a device."""
        if self.fibres is None:
            raise LayoutMismatch("Only a fibred map has fibres to take.", expected="a fibred map", found=self)
        chosen = index if isinstance(index, slice) else torch.as_tensor(index, device=self.device)
        return self._each(lambda tensor: tensor[chosen])

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(**{field.name: change(getattr(self, field.name)) for field in fields(self)})

    def __repr__(self) -> str:
        copies = f"{self.fibres} x " if self.fibres else ""
        return f"<{type(self).__name__} {copies}({self.source} -> {self.target}) {self.dtype} {self.device}>"
