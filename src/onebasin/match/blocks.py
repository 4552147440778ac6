"""How much each block counts in the distance."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from onebasin.match.circuits import circuits_of, inner_spaces
from onebasin.match.options import group_of
from onebasin.match.pair import Pair
from onebasin.spec import Leaf, ModelSpec

POWERS = {"raw": 0.0, "balanced": -0.5, "angle": -1.0}


def block_weights(pair: Pair, kind: str) -> dict[str, float]:
    """w for every leaf:  1 ("raw"),  |A|^-1/2 |B|^-1/2 ("balanced"),  1/(|A||B|) ("angle"),  or  1/n ("columns").

    Between raw, where the largest blocks decide, and angle, where every block counts alike, balanced did best on the
    pairs measured.  Columns is the weighting of P1's code, see `_columns`.
    """
    if kind == "columns":
        return _columns(pair.spec)
    size = {name: float(a.norm() * pair.b[name].norm()) for name, a in pair.a.items()}
    return _powers(size, [name for name, a in pair.a.items() if a.ndim > 1], POWERS[kind])


def circuit_weights(pair: Pair, kind: str) -> dict[str, float]:
    """w for the circuits of every space inside heads, as above.

    A circuit is a product of two leaves.  So that it grows with the weights as leaves do, its power under "balanced" is
    −3/4: there w |A||B| is a root of |A||B| for a leaf, a fourth root for a circuit.  "raw" is 1, as in P1.
    """
    found = {space: [circuits_of(pair, {}, space, of_b=b) for b in (False, True)] for space in inner_spaces(pair.spec)}
    if kind == "columns":
        return {space: 1 / (of_a.square.numel() * of_a.features) for space, (of_a, _) in found.items()}
    size = {space: math.prod(math.sqrt(float(c.square.sum())) for c in both) for space, both in found.items()}
    return _powers(size, list(size), 0.0 if kind == "raw" else (POWERS[kind] - 1) / 2)


def _powers(size: Mapping[str, float], typical: list[str], power: float) -> dict[str, float]:
    """Blocks far below the median size count as if they had a tenth of it: noise in a dead layer is not blown up."""
    middle = float(np.median([size[name] for name in typical])) if typical else 0.0
    return {name: (s + 0.1 * middle) ** power for name, s in size.items()}


def _columns(spec: ModelSpec) -> dict[str, float]:
    """1/n for a block of n columns in a stream.  A bias counts with its matrix, the parameters of norms not at all."""
    matrix = {x.bias: x.weight for x in spec.linears.values() if x.bias is not None}
    in_norms = {name for norm in spec.norms.values() for name in (norm.gain, norm.bias)}
    return {
        name: 0.0 if name in in_norms else 1 / _width(spec, spec.leaves[matrix.get(name, name)]) for name in spec.leaves
    }


def _width(spec: ModelSpec, leaf: Leaf) -> int:
    """How many columns the leaf has, along its stream or else its first space."""
    dims = sorted(leaf.spaces(), key=lambda placed: group_of(spec, placed[1].space) != "residual")
    return math.prod(leaf.shape) // (leaf.shape[dims[0][0]] if dims else 1)
