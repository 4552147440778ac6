"""Points between models: one share λ_m ≥ 0 for each, Σ λ_m = 1.  Of two models the share of B alone says it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from onebasin.errors import OnebasinError

POINTS = 11  # on a path between two models, both ends included
SIDE = 7  # on a side of the triangle of three: its grid holds the centre and the middles of the sides
Point = tuple[float, ...]


def point(shares: float | Sequence[float], count: int) -> Point:
    """The shares of `count` models: none below zero, one in all.  A number is the share of the second of two."""
    found = (1 - shares, shares) if isinstance(shares, int | float) else tuple(shares)
    if len(found) != count or min(found) < 0 or abs(sum(found) - 1) > 1e-9:
        raise OnebasinError(
            "A point between models has one share for each of them",
            expected=f"{count} shares from 0 to 1 that add up to 1; of two models the share of B, from 0 to 1",
            found=shares,
            next_step="give the share of every model",
        )
    return found


def vertices(count: int) -> list[Point]:
    """The models themselves."""
    return [tuple(float(i == m) for i in range(count)) for m in range(count)]


def middle(count: int, *members: int) -> Point:
    """The average of these models."""
    return tuple(1 / len(members) if i in members else 0.0 for i in range(count))


def grid(count: int, points: int | None = None) -> list[Point]:
    """Of two models `points` from A to B, evenly spaced; of more the models, the middles of all pairs and the centre.

    For three there is also a triangle with so many points on a side.
    """
    if points is not None and (points < 2 or count > 3):
        expected, step = "2 points or more, of two or three models", "leave the number out for more models than three"
        raise OnebasinError("There is no such grid", expected=expected, found=(points, count), next_step=step)
    if count == 2:
        steps = (points or POINTS) - 1
        return [(1 - i / steps, i / steps) for i in range(steps + 1)]
    found = [*vertices(count), *(middle(count, *pair) for pair in combinations(range(count), 2))]
    found.append(middle(count, *range(count)))
    if count == 3:
        steps = (points or SIDE) - 1
        inside = [(i, j, steps - i - j) for i in range(steps, -1, -1) for j in range(steps - i, -1, -1)]
        found += [tuple(n / steps for n in place) for place in inside]
    return list(dict.fromkeys(found))  # equal fractions are equal numbers
