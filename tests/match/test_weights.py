"""What the rotation of the stream is fitted to is what the options name; by default it is circuits."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from helpers.matching import match, paper
from helpers.pairs import open_random
from onebasin import canonicalize
from onebasin.match.pages import Pages
from onebasin.match.pair import Pair
from onebasin.match.sizes import Sizes
from onebasin.match.strategy import Strategy, balanced, balanced_circuits, equal
from onebasin.match.stream import circuit_cross
from onebasin.methods.weight import Weight
from onebasin.papers import strategies
from onebasin.papers.matching import p1_code_cross

MOMENTS = {"factors": None, "circuits": circuit_cross, "p1-code": p1_code_cross}


@pytest.mark.parametrize("moments", MOMENTS)
def test_the_stream_is_turned_by_the_moments_that_were_asked_for(tmp_path, monkeypatch, moments):
    used = []
    for name, moment in strategies.MOMENTS.items():

        def seen(*arguments: object, name: str = name, moment: object = moment) -> object:
            used.append(name)
            return moment(*arguments)

        monkeypatch.setitem(strategies.MOMENTS, name, seen)
    a, b = (canonicalize(open_random(tmp_path / str(i), "gpt2", 1, i)).checkpoint for i in (0, 1))
    match(Pair.of(a, b), Weight(sweeps=2, paper={"moments": moments}))
    assert set(used) == ({moments} if MOMENTS[moments] else set())


@pytest.mark.parametrize(("tol", "rounds"), [(0.9, 3), (0.0, 8)])
def test_matching_ends_with_the_round_that_gains_too_little(tmp_path, tol, rounds):
    """After the first, which only begins; without a tolerance all rounds are made, or until one is refused."""
    a, b = (canonicalize(open_random(tmp_path / str(i), "gpt2", 1, i)).checkpoint for i in (0, 1))
    found = match(Pair.of(a, b), Weight(sweeps=8, tol=tol))
    gains = [1 - after / before for before, after in pairwise(found.distances)]
    if tol:
        assert found.converged
        assert len(found.distances) == rounds
        assert gains[-1] <= tol
    else:
        assert len(found.distances) > 3
        assert not found.converged or gains[-1] == 0  # the last was taken back


def test_circuits_grow_with_the_weights_as_leaves_do_by_half(tmp_path):
    """w |A| |B| is a root of the size for a leaf and a fourth root for a circuit, a product of two leaves."""
    a, b = (canonicalize(open_random(tmp_path / str(i), "gpt2", 1, i)).checkpoint for i in (0, 1))
    sizes = Sizes.of(Pages.of(a, b))
    larger = replace(sizes, leaves={name: 16 * x for name, x in sizes.leaves.items()},
                     circuits={name: 16**2 * x for name, x in sizes.circuits.items()})  # fmt: skip
    for weigh, before, after, power in (
        (balanced, sizes.leaves, larger.leaves, 1 / 2),
        (balanced_circuits, sizes.circuits, larger.circuits, 1 / 4),
        (equal, sizes.leaves, larger.leaves, 0.0),
    ):
        growth = [weigh(larger)[x] * after[x] / (weigh(sizes)[x] * before[x]) for x in before if before[x]]
        expected = 16 ** (2 * power if weigh is balanced_circuits else power)
        assert growth == pytest.approx([expected] * len(growth))


def test_the_section_of_the_papers_begins_with_our_choices(tmp_path):
    """An empty section `paper` and none at all are one and the same."""
    a, b = (canonicalize(open_random(tmp_path / str(i), "llama", 2, i)).checkpoint for i in (0, 1))
    pair = Pair.of(a, b)
    ours, theirs = match(pair), match(pair, paper())
    assert ours.distances == theirs.distances
    assert Strategy().circuit_moment is circuit_cross
    assert match(pair, paper(moments="factors")).distances != ours.distances  # the control
