"""Two models of unequal numbers of units or heads: what fills the smaller one, so that it comes closest to the other.

    minimise over alignments π and semi-permutations S    Σ w |A − π(S B)|²      (or |S A − π(B)|² where A is smaller)

in turns: π by weight matching, S from π.  A space that is split needs no order besides: copies go to the places of the
units they are like.  What counts how much is decided once, with nothing as filling, so that distances compare.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import torch

from onebasin import families as fam
from onebasin.alignment import Alignment
from onebasin.checkpoint import Checkpoint
from onebasin.ensemble.aligned import Aligned
from onebasin.ensemble.ensemble import Ensemble
from onebasin.families import Rep
from onebasin.linalg import assign
from onebasin.maps import Map, Permutation
from onebasin.match.circuits import circuits_of, group_space, inner_spaces
from onebasin.match.many import aligned_by
from onebasin.match.moments import Overlap, overlaps
from onebasin.match.options import WeightMatching, check_two
from onebasin.match.pages import Pages
from onebasin.match.pair import Maps, Pair
from onebasin.match.shares import Split, best_split
from onebasin.match.sizes import Sizes
from onebasin.match.state import State
from onebasin.match.strategy import Strategy
from onebasin.match.units import SCORED
from onebasin.match.weights import Matched, Tick, match_weights
from onebasin.widening.embeddings import Embedding, even_split, shareable

ROUNDS = 4  # of shares and matching in turn, at most
Filled = tuple[Ensemble, Matched]


def match_filled(
    ensemble: Ensemble, options: WeightMatching, strategy: Strategy,
    pages_of: Callable[[Checkpoint, Checkpoint], Pages], tick: Tick = lambda step: None,
) -> Aligned:  # fmt: skip
    """Two models matched by their weights, the smaller filled as the options say: evenly, or by the best shares.

    Shares begin from nothing or from even ones, whichever matched closer, and are kept only while they come closer.
    """
    check_two(len(ensemble))
    empty = pages_of(*ensemble.forms)
    sizes = Sizes.of(empty)
    leaves, circuits = strategy.emphasis(sizes), strategy.circuit_emphasis(sizes)
    strategy = replace(strategy, emphasis=lambda _: leaves, circuit_emphasis=lambda _: circuits)

    def match(filled: Ensemble, start: Alignment | None = None) -> Filled:
        return filled, match_weights(pages_of(*filled.forms), options, strategy, start=start, tick=tick)

    split = Splits(ensemble, State(empty, options, strategy), options.spaces)
    even = match(split.evenly())
    if options.extra == "split":
        return _aligned(*even)
    tried = {"zero": match(ensemble), "split": even}
    best = min(tried.values(), key=_distance)
    for turn in range(ROUNDS):
        tick(f"shares of units and heads, round {turn + 1}")
        new = match(*split.by_shares(best[1].alignment))
        if not _distance(new) < _distance(best) * (1 - options.tol):
            break
        best = tried["shares"] = new
    return _aligned(*best, {name: _distance(one) for name, one in tried.items()})


def _distance(filled: Filled) -> float:
    return filled[1].distances[-1]


def _aligned(ensemble: Ensemble, found: Matched, distances: Mapping[str, float] | None = None) -> Aligned:
    course = {"sweeps": len(found.distances) - 1, "converged": found.converged}
    more = {} if distances is None else {"extra": dict(distances)}
    return aligned_by(ensemble, [Alignment.identity(ensemble.spec), found.alignment.to("cpu")], {**course, **more})


class Splits:
    """The spaces of two models that can be split, and which of the two is the smaller there (0 or 1)."""

    def __init__(self, ensemble: Ensemble, state: State, groups: Collection[str]) -> None:
        self.ensemble, self.state, self.spec, self.small = ensemble, state, ensemble.spec, dict[str, int]()
        for which, table in enumerate(ensemble.tables):
            for name in shareable(table, ensemble.spec):
                whole = ensemble.tables[1 - which].spaces[name].size == ensemble.spec.spaces[name].size
                families = (fam.PERMUTATION,) if name in self.spec.heads else SCORED
                told_apart = state.family[name] in families
                if whole and told_apart and state.group[name] in groups:
                    self.small[name] = which

    def _size(self, name: str) -> int:
        """How many units or heads there are to be split."""
        return self.ensemble.tables[self.small[name]].spaces[name].size

    def _filled(self, fills: Mapping[str, Embedding]) -> Ensemble:
        return self.ensemble.filled([{x: e for x, e in fills.items() if self.small[x] == which} for which in (0, 1)])

    def evenly(self) -> Ensemble:
        """Every unit and head as often as any other."""
        return self._filled({x: even_split(self._size(x), self.spec.spaces[x].size) for x in self.small})

    def by_shares(self, found: Alignment) -> tuple[Ensemble, Alignment]:
        """The best shares under an alignment of the models, and that alignment with nothing left to do there."""
        device = self.state.pages.device
        self.state.maps.update(found.to(device).maps)
        fills, maps = dict[str, Embedding](), dict(found.to(device).maps)
        for names in self.state.pages.names:
            for space in self.spec.spaces_of(names) & self.small.keys():
                pair, rest = self.state.turned(names)
                heads = space in self.spec.heads
                split, more = (self._heads if heads else self._units)(pair, rest, space)
                source, scales, parts = (tuple(x.tolist()) for x in (split.source, split.s, split.t))
                fills[space] = Embedding(source, scales=scales, parts=parts)
                maps |= {space: self.state.maps[space].identity(len(split.source), device=device), **more}
        return self._filled(fills), Alignment(maps, found.bases)

    def _sliced(self, of: Overlap, space: str) -> Overlap:
        """Places of the larger model by units of the smaller."""
        n = self._size(space)
        if self.small[space] == 0:
            of = Overlap(of.cross.mT, of.squares_b, of.squares_a)
        return Overlap(of.cross[:, :n], of.squares_a, of.squares_b[:n])

    def _units(self, pair: Pair, maps: Maps, space: str) -> tuple[Split, dict[str, Map]]:
        found = overlaps(pair, maps, space, self.state.counted)
        return best_split(self.state.family[space], {rep: self._sliced(x, space) for rep, x in found.items()}), {}

    def _heads(self, pair: Pair, maps: Maps, heads: str) -> tuple[Split, dict[str, Map]]:
        """QK is copied and OV shared out; of queries that share a head the order is the best for the pair of heads."""
        spec, group = self.spec, group_space(self.spec, heads)
        inside = inner_spaces(spec, heads)
        still = {name: g for name, g in maps.items() if name not in (heads, group, *inside)}
        values = (spec.leaves[spec.linears[x.value].weight] for x in spec.attentions)
        written = {axis.space for leaf in values for _, axis in leaf.spaces()}
        parts = []
        for name in inside:
            a, b = circuits_of(pair, {}, name, of_b=False), circuits_of(pair, still, name, of_b=True)
            w, rep = self.state.circuits.get(name, 1.0), Rep.COV if name in written else Rep.VEC
            parts.append((rep, w * a.inner(b).permute(0, 2, 1, 3), w * a.square.sum(1), w * b.square.sum(1)))
        order = assign(torch.stack([inner for _, inner, _, _ in parts]).sum(0))  # (h, h', g): B's query for each of A's
        found: dict[Rep, Overlap] = {}
        for rep, inner, of_a, of_b in parts:
            one = Overlap(inner.gather(-1, order.unsqueeze(-1)).sum((-2, -1)), of_a, of_b)
            found[rep] = found[rep] + one if rep in found else one
        split = best_split(fam.PERMUTATION, {rep: self._sliced(x, heads) for rep, x in found.items()})
        more = {name: self.state.maps[name].identity(spec.spaces[name].size, fibres=spec.fibres(name),
                device=order.device) for name in inside}  # fmt: skip
        if group is not None:
            places, taken = torch.arange(len(order), device=order.device), split.source.clamp_min(0)
            queries = order[taken, places] if self.small[heads] == 0 else order[places, taken]
            more[group] = Permutation(queries, torch.ones_like(queries, dtype=torch.float64))
        return split, more
