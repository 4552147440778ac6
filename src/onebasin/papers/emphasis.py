"""How much each block counts, by the choices that the papers compare."""

from __future__ import annotations

import math
from functools import partial

from onebasin.ensemble.emphasis import BALANCED, balance
from onebasin.match.circuits import circuits_of, inner_spaces
from onebasin.match.options import group_of
from onebasin.match.pair import Pair
from onebasin.match.strategy import Emphasis, balanced_circuits
from onebasin.spec import Leaf, ModelSpec

POWERS = {"raw": 0.0, "balanced": BALANCED, "angle": -1.0}


def leaf_emphasis(kind: str) -> Emphasis:
    """w for every leaf: (|A| |B|)^power, or for "columns" 1/n as in the first paper's code."""
    return (lambda pair: _columns(pair.spec)) if kind == "columns" else partial(_powers, POWERS[kind])


def _powers(power: float, pair: Pair) -> dict[str, float]:
    return balance(pair.a, pair.b, power)


def circuit_emphasis(kind: str) -> Emphasis:
    """w for the circuits of every space inside heads, as above."""
    if kind == "columns":
        return _circuit_columns
    return partial(balanced_circuits, power=0.0 if kind == "raw" else (POWERS[kind] - 1) / 2)


def _circuit_columns(pair: Pair) -> dict[str, float]:
    of_a = {space: circuits_of(pair, {}, space, of_b=False) for space in inner_spaces(pair.spec)}
    return {space: 1 / (circuits.square.numel() * circuits.features) for space, circuits in of_a.items()}


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
