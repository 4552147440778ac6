"""What weight matching compares, and how: the places where the papers differ (`onebasin.papers`), with our choices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from onebasin.ensemble.emphasis import balance
from onebasin.families import Family
from onebasin.maps import Map
from onebasin.match.heads import Metric, frobenius_squared
from onebasin.match.pair import Maps, Pair
from onebasin.match.units import solve_units

Emphasis = Callable[[Pair], Mapping[str, float]]
SolveUnits = Callable[[Pair, Maps, str, Family, Mapping[str, float]], Map]
CircuitMoment = Callable[[Pair, Maps, str, Mapping[str, float]], Tensor]


def balanced(pair: Pair) -> dict[str, float]:
    """w = |A|^-1/2 |B|^-1/2 for every leaf."""
    return balance(pair.a, pair.b)


def equal(pair: Pair) -> dict[str, float]:
    """w = 1/(|A| |B|) for every leaf: every block counts alike."""
    return balance(pair.a, pair.b, -1.0)


@dataclass(frozen=True)
class Strategy:
    """`emphasis` is how much each leaf counts, `head_metric` the distance of circuits by which heads are assigned,
    `units` how hidden units are paired; `guard` refuses every step after the first round that raises the distance.

    With `circuit_moment` the stream is fitted to the circuits of attention, which count by `circuit_emphasis`, in place
    of queries, keys, values and outputs one by one; the maps inside heads, which circuits do not see, come last.
    """

    emphasis: Emphasis = balanced
    head_metric: Metric = frobenius_squared
    units: SolveUnits = solve_units
    guard: bool = True
    circuit_moment: CircuitMoment | None = None
    circuit_emphasis: Emphasis = lambda pair: {}
