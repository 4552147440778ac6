"""What the rotation of the stream is fitted to is what the options name; by default it is circuits."""

from __future__ import annotations

import pytest

from helpers.matching import match, paper
from helpers.pairs import open_random
from onebasin import canonicalize
from onebasin.match.pair import Pair
from onebasin.match.strategy import Strategy
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


def test_the_section_of_the_papers_begins_with_our_choices(tmp_path):
    """An empty section `paper` and none at all are one and the same."""
    a, b = (canonicalize(open_random(tmp_path / str(i), "llama", 2, i)).checkpoint for i in (0, 1))
    pair = Pair.of(a, b)
    ours, theirs = match(pair), match(pair, paper())
    assert ours.distances == theirs.distances
    assert Strategy().circuit_moment is circuit_cross
    assert match(pair, paper(moments="factors")).distances != ours.distances  # the control
