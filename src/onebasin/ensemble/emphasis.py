"""How much each block counts in a distance between models."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from onebasin.checkpoint import Checkpoint

BALANCED = -0.5


def balance(
    a: Mapping[str, Tensor] | Checkpoint, b: Mapping[str, Tensor] | Checkpoint, power: float = BALANCED
) -> dict[str, float]:
    """w = (|A| |B|)^power for every leaf: 0 lets the largest blocks decide, and by −1 every block counts alike.

    Between the two, −1/2 did best on the pairs measured.
    """
    size, matrices = {}, []
    for name in a:
        x = a[name]
        size[name] = float(x.norm() * b[name].norm())
        matrices += [name] if x.ndim > 1 else []
    return to_power(size, matrices, power)


def to_power(size: Mapping[str, float], typical: list[str], power: float) -> dict[str, float]:
    """Blocks far below the median size count as if they had a tenth of it: noise in a dead layer is not blown up.

    Where the median is zero too, a block of zeros counts once.
    """
    middle = float(np.median([size[name] for name in typical])) if typical else 0.0
    raised = {name: s + 0.1 * middle for name, s in size.items()}
    return {name: s**power if s else 1.0 for name, s in raised.items()}
