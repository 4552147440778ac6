"""Random ingredients of random maps."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Draw:
    """A source of random tensors (f?, *shape), one independent draw per fibre."""

    generator: torch.Generator
    fibres: int | None
    condition: float
    dtype: torch.dtype

    def _shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape if self.fibres is None else (self.fibres, *shape)

    def uniform(self, *shape: int) -> Tensor:
        """On [0, 1)."""
        return torch.rand(self._shape(shape), generator=self.generator, dtype=self.dtype, device=self.generator.device)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal."""
        return torch.randn(self._shape(shape), generator=self.generator, dtype=self.dtype, device=self.generator.device)

    def ones(self, *shape: int) -> Tensor:
        """Not random, for scales that are fixed."""
        return torch.ones(self._shape(shape), dtype=self.dtype, device=self.generator.device)

    def signs(self, *shape: int) -> Tensor:
        """+1 or -1."""
        return 1 - 2 * (self.uniform(*shape) < 0.5).to(self.dtype)

    def scales(self, *shape: int) -> Tensor:
        """Log-uniform on [condition^-1/2, condition^1/2]."""
        return self.condition ** (self.uniform(*shape) - 0.5)

    def permutation(self, n: int) -> Tensor:
        """A uniform permutation of n units, as index."""
        return self.uniform(n).argsort(-1)

    def isometry(self, m: int, n: int) -> Tensor:
        """(f?, m, n) with orthonormal columns, uniform (Haar): Q of a Gaussian QR with the signs of R's diagonal."""
        q, r = torch.linalg.qr(self.normal(m, n))
        uniform: Tensor = q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
        return uniform
