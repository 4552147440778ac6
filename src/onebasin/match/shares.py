"""Semi-permutations: which units of a small model become which of a larger one, and what share each copy has.

A has M units, B has N < M (first paper, 3.1).  Every unit of A takes one of B's, or none:  place i of B is a copy of
its unit p(i) that reads as s_i times that unit, and is read as t_i times that unit, with

    Σ s_i t_i = 1  over the places of each unit, s_i t_i ≥ 0,     s_i = 1 unless the activation admits scales,

so that B computes what it did.  Wanted is the B that is closest to A,

    minimise  Σ_i |a_v,i − s_i b_v,p(i)|² + |a_c,i − t_i b_c,p(i)|² + |a_g,i − b_g,p(i)|²      (reads, is read, gates),

where a place that takes none costs |a_i|².  A head is a unit that reads as its circuit QK and is read as OV.

For given p the shares are a convex problem (`linalg.shares`), which also prices the shares of each unit.  For given
prices every place chooses for itself, but that every unit needs one place: an assignment of N units to M places, on
what each would lose by it (`covering`).  Both take turns; then single places change units while that helps.
Choosing p is a combinatorial problem, so the end need not be the best there is.  It begins from three patterns, among
them the best that fills up with nothing, and the best even split: it is never worse than these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from onebasin import families as fam
from onebasin.families import Family, Rep
from onebasin.linalg import assign
from onebasin.linalg.shares import Sides, best_shares
from onebasin.match.moments import Overlap
from onebasin.match.solve import scaled_scores

FLOOR = 1e-24  # of the square of a unit that is dead, beside the largest
ROUNDS = 50  # of one kind of step, at most
GAIN = 1e-12  # what a step has to gain, as a part of the cost of filling up with nothing


@dataclass(frozen=True)
class Split:
    """Place i takes s_i and t_i of the unit `source`_i, (M,) each; −1 takes none.  `cost` is beside taking none."""

    source: Tensor
    s: Tensor
    t: Tensor
    cost: float = 0.0


class Problem:
    """All pairs of a place and a unit: `sides` (M, N), `still` (M, N) what else a copy costs."""

    def __init__(self, family: Family, of: Mapping[Rep, Overlap]) -> None:
        none = next(iter(of.values())).zero()
        v, c, g = (of.get(rep, none) for rep in (Rep.VEC, Rep.COV, Rep.PERM))
        self.family, self.of = family, {Rep.VEC: v, Rep.COV: c, Rep.PERM: g}
        gram_v, gram_c = (x.squares_b.clamp_min(FLOOR * x.squares_b.max().clamp_min(FLOOR)) for x in (v, c))
        free, signed = family >= fam.POSITIVE_SCALING, family >= fam.SIGNS
        self.sides = Sides(v.cross, gram_v.expand_as(v.cross), c.cross, gram_c.expand_as(c.cross), free, signed)
        self.still = g.squares_b - 2 * g.cross
        self.size = float(sum(x.squares_a.sum() for x in (v, c, g)))

    def rows(self, places: Tensor, units: Tensor) -> Sides:
        """The sides of these pairs."""
        cells = {name: getattr(self.sides, name)[places, units] for name in ("cross_v", "gram_v", "cross_c", "gram_c")}
        return replace(self.sides, **cells)

    def split(self, source: Tensor) -> tuple[Split, Tensor, Tensor]:
        """(the best shares of a pattern, the cost of each unit's places, the price of its shares)."""
        (_, n), live = self.still.shape, source >= 0
        places, units = live.nonzero().squeeze(-1), source[live]
        rows = self.rows(places, units)
        s, t, price = best_shares(rows, units, n)
        cost = rows.cost(s, t) + self.still[places, units]
        by_unit = cost.new_zeros(n).scatter_add(0, units, cost)
        zero = cost.new_zeros(len(source))
        split = Split(source, zero.index_put((places,), s), zero.index_put((places,), t), float(cost.sum()))
        return split, by_unit, price

    def priced(self, price: Tensor) -> Tensor:
        """(M, N): what each place would cost with each unit at these prices, less what its share is paid."""
        return self.sides.best(price)[2] + self.still

    def starts(self) -> Iterator[Tensor]:
        """Patterns: with nothing, shared out evenly, and every place by its own choice at the first one's prices."""
        m, n = self.still.shape
        places = assign(self._scores(self.of).mT)
        nothing = torch.full((m,), -1, device=places.device).scatter(0, places, torch.arange(n, device=places.device))
        yield nothing
        turns = torch.arange(m, device=places.device)
        copies = torch.bincount(turns % n, minlength=n).to(self.still)
        c = self.of[Rep.COV]
        even = {**self.of, Rep.COV: Overlap(c.cross / copies, c.squares_a, c.squares_b / copies**2)}
        wide = {rep: Overlap(x.cross[:, turns % n], x.squares_a, x.squares_b[turns % n]) for rep, x in even.items()}
        yield assign(self._scores(wide)) % n
        yield covering(self.priced(self.split(nothing)[2]))

    def _scores(self, of: Mapping[Rep, Overlap]) -> Tensor:
        """2 ⟨a, b⟩ − |b|² at the best scale of each pair."""
        still = of[Rep.PERM]
        if self.sides.free:
            return scaled_scores(self.family, 2 * still.cross, of[Rep.VEC], of[Rep.COV]) - still.squares_b
        return sum(2 * x.cross - x.squares_b for x in of.values())  # type: ignore[return-value]


def best_split(family: Family, of: Mapping[Rep, Overlap]) -> Split:
    """The semi-permutation of units that brings B's closest: `of` holds C (M, N), |a|² (M,) and |b|² (N,).

    Cost: some tens of assignments of N units to M places, and of passes over all M N pairs.
    """
    problem = Problem(family, of)
    return min((_descend(problem, start) for start in problem.starts()), key=lambda split: split.cost)


def covering(cost: Tensor) -> Tensor:
    """p (M,), −1 for none: the cheapest pattern in which every one of the N units has a place.

    Each place takes what is cheapest, or nothing; and N of them, one for each unit, take that unit: those that lose
    least by it.
    """
    least, source = cost.min(-1)
    source = torch.where(least < 0, source, -1)
    held = assign((least.clamp_max(0).unsqueeze(-1) - cost).mT)
    return source.scatter(0, held, torch.arange(cost.shape[1], device=cost.device))


def _descend(problem: Problem, source: Tensor) -> Split:
    """From a pattern down: whole patterns at the prices of the last, then place by place."""
    best, _, price = problem.split(source)
    for _ in range(ROUNDS):
        new, _, prices = problem.split(covering(problem.priced(price)))
        if not new.cost < best.cost - GAIN * problem.size:
            break
        best, price = new, prices
    return _move_places(problem, best)


def _move_places(problem: Problem, best: Split) -> Split:
    """Single places change units.  At the prices of now a change looks better than it is: few have to be tried.

    Changes that share no unit are tried together; each is kept only if its two units cost less than before.
    """
    tried = torch.zeros_like(problem.still, dtype=torch.bool)
    for _ in range(ROUNDS):
        _, before, price = problem.split(best.source)
        places, units = _candidates(problem, best.source, problem.priced(price), tried)
        if not len(places):
            break
        tried[places, units] = True
        changed = best.source.index_put((places,), units)
        _, after, _ = problem.split(changed)
        gain = before - after
        worth = gain[units] + torch.where(best.source[places] >= 0, gain[best.source[places].clamp_min(0)], 0.0)
        good = worth > GAIN * problem.size
        if good.any():
            best, _, _ = problem.split(best.source.index_put((places[good],), units[good]))
    return best


def _candidates(problem: Problem, source: Tensor, priced: Tensor, tried: Tensor) -> tuple[Tensor, Tensor]:
    """(places, units): what looks best for a place, no unit more than once, none left without a place."""
    live = source >= 0
    here = torch.where(live, priced.gather(1, source.clamp_min(0).unsqueeze(-1)).squeeze(-1), 0.0)
    alone = torch.bincount(source[live], minlength=priced.shape[1])[source.clamp_min(0)] == 1
    change = torch.where(tried, torch.inf, priced - here.unsqueeze(-1))
    change.masked_fill_((live & alone).unsqueeze(-1), torch.inf)
    change[live, source[live]] = torch.inf
    least, unit = change.min(-1)
    found: list[tuple[int, int]] = []
    busy: set[int] = set()
    for i in least.argsort().tolist():
        if not least[i] < -GAIN * problem.size:
            break
        ends = {int(unit[i]), int(source[i])} - {-1}
        if not ends & busy:
            busy |= ends
            found.append((i, int(unit[i])))
    places, units = torch.tensor(found, device=source.device, dtype=torch.long).reshape(-1, 2).unbind(1)
    return places, units
