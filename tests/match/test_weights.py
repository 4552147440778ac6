"""What the rotation of the stream is fitted to is what the options name."""

from __future__ import annotations

import pytest

from helpers.pairs import open_random
from onebasin import canonicalize
from onebasin.match import Pair, WeightMatching, match_weights, stream, weights

MOMENTS = {"factors": [], "circuits": ["circuit_cross"], "p1-code": ["p1_code_cross"]}


@pytest.mark.parametrize("moments", MOMENTS)
def test_the_stream_is_turned_by_the_moments_that_were_asked_for(tmp_path, monkeypatch, moments):
    used = set()
    for name in ("circuit_cross", "p1_code_cross"):

        def seen(*arguments: object, name: str = name) -> object:
            used.add(name)
            return getattr(stream, name)(*arguments)

        monkeypatch.setattr(weights, name, seen)
    a, b = (canonicalize(open_random(tmp_path / str(i), "gpt2", 1, i)).checkpoint for i in (0, 1))
    match_weights(Pair.of(a, b), WeightMatching(moments=moments, sweeps=2))
    assert sorted(used) == MOMENTS[moments]
