"""Numerical kernels on plain tensors: nearest orthogonal matrices, assignments, stochastic matrices.

Every function takes matrices of shape (..., m, n), computes in the dtype it is given (float32 or float64) and knows
nothing of models, families or maps.
"""

from onebasin.linalg.assignment import assign
from onebasin.linalg.gauge import two_sided, two_sided_distance
from onebasin.linalg.orthogonal import ones_complement, polar, polar_fixing_ones
from onebasin.linalg.rotations import cayley, centred, expm, skew
from onebasin.linalg.scales import complex_scale, positive_scale, signed_scale
from onebasin.linalg.stochastic import (
    mixture,
    nearest_doubly_stochastic,
    nearest_simplex,
    outer_sum,
    running_shares,
    sinkhorn,
)

__all__ = [
    "assign",
    "cayley",
    "centred",
    "complex_scale",
    "expm",
    "mixture",
    "nearest_doubly_stochastic",
    "nearest_simplex",
    "ones_complement",
    "outer_sum",
    "polar",
    "polar_fixing_ones",
    "positive_scale",
    "running_shares",
    "signed_scale",
    "sinkhorn",
    "skew",
    "two_sided",
    "two_sided_distance",
]
