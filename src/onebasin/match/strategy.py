"""What weight matching compares, and how: the places where the papers differ (`onebasin.papers`), with our choices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from onebasin.ensemble.emphasis import BALANCED, to_power
from onebasin.families import Family
from onebasin.linalg.workers import Workers
from onebasin.maps import Map
from onebasin.match.heads import Metric, frobenius_squared
from onebasin.match.pair import Maps, Pair
from onebasin.match.sizes import Sizes
from onebasin.match.stream import circuit_cross
from onebasin.match.units import solve_units

Emphasis = Callable[[Sizes], dict[str, float]]
SolveUnits = Callable[[Pair, Maps, str, Family, Mapping[str, float], Workers], Callable[[Pair, Maps], Map]]
CircuitMoment = Callable[[Pair, Maps, str, Mapping[str, float]], Tensor]


def balanced(sizes: Sizes, power: float = BALANCED) -> dict[str, float]:
    """w = (|A| |B|)^power for every leaf; −1/2 if not given."""
    return to_power(sizes.leaves, sizes.matrices, power)


def balanced_circuits(sizes: Sizes, power: float = (BALANCED - 1) / 2) -> dict[str, float]:
    """w = (|A| |B|)^power for the circuits of every space inside heads.

    A circuit is a product of two leaves.  So that it grows with the weights as leaves do, its power is −3/4 where that
    of leaves is −1/2: then w |A||B| is a root of |A||B| for a leaf, a fourth root for a circuit.
    """
    return to_power(sizes.circuits, list(sizes.circuits), power)


def equal(sizes: Sizes) -> dict[str, float]:
    """w = 1/(|A| |B|) for every leaf: every block counts alike."""
    return balanced(sizes, -1.0)


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
    circuit_moment: CircuitMoment = circuit_cross
    circuit_emphasis: Emphasis = balanced_circuits

    def by_factors(self) -> Strategy:
        """The same with queries, keys, values and outputs one by one."""
        return replace(self, circuit_emphasis=lambda sizes: {})
