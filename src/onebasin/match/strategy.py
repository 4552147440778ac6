"""What weight matching compares, and how: the places where the papers differ (`onebasin.papers`), with our choices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from onebasin.ensemble.emphasis import BALANCED, balance, to_power
from onebasin.families import Family
from onebasin.maps import Map
from onebasin.match.circuits import circuits_of, inner_spaces
from onebasin.match.heads import Metric, frobenius_squared
from onebasin.match.pair import Maps, Pair
from onebasin.match.stream import circuit_cross
from onebasin.match.units import solve_units

Emphasis = Callable[[Pair], Mapping[str, float]]
SolveUnits = Callable[[Pair, Maps, str, Family, Mapping[str, float]], Map]
CircuitMoment = Callable[[Pair, Maps, str, Mapping[str, float]], Tensor]


def balanced(pair: Pair) -> dict[str, float]:
    """w = |A|^-1/2 |B|^-1/2 for every leaf."""
    return balance(pair.a, pair.b)


def balanced_circuits(pair: Pair, power: float = (BALANCED - 1) / 2) -> dict[str, float]:
    """w = (|A| |B|)^power for the circuits of every space inside heads.

    A circuit is a product of two leaves.  So that it grows with the weights as leaves do, its power is −3/4 where that
    of leaves is −1/2: then w |A||B| is a root of |A||B| for a leaf, a fourth root for a circuit.
    """
    size = {}
    for space in inner_spaces(pair.spec):
        both = (circuits_of(pair, {}, space, of_b=of_b) for of_b in (False, True))
        size[space] = math.prod(math.sqrt(float(circuits.square.sum())) for circuits in both)
    return to_power(size, list(size), power)


def equal(pair: Pair) -> dict[str, float]:
    """w = 1/(|A| |B|) for every leaf: every block counts alike."""
    return balance(pair.a, pair.b, -1.0)


@dataclass(frozen=True)
class Strategy:
    """`emphasis` is how much each leaf counts, `head_metric` the distance of circuits by which heads are assigned,
    `units` how hidden units are paired; `guard` refuses every step after the first round that raises the distance.

    The stream is fitted to the circuits of attention by `circuit_moment`; they count by `circuit_emphasis`, in place of
    queries, keys, values and outputs one by one.  The maps inside heads, which circuits do not see, come last: so
    they cannot fit what the stream should.
    """

    emphasis: Emphasis = balanced
    head_metric: Metric = frobenius_squared
    units: SolveUnits = solve_units
    guard: bool = True
    circuit_moment: CircuitMoment | None = circuit_cross
    circuit_emphasis: Emphasis = balanced_circuits

    def by_factors(self) -> Strategy:
        """The same with queries, keys, values and outputs one by one."""
        return replace(self, circuit_moment=None, circuit_emphasis=lambda pair: {})
