"""The clock of a run: it counts down to nothing, and without a limit it never ends."""

from __future__ import annotations

import time

import pytest

from onebasin.reproduce.pausing import Clock, OutOfTime


def test_a_clock_counts_down_and_then_ends(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock, endless = Clock(0.5), Clock(None)
    for now[0], left in ((100.0, 30.0), (129.5, 0.5)):
        assert (clock.left(), endless.left()) == (left, None)
        clock.check()
    for now[0] in (130.0, 131.0):
        assert clock.left() == 0.0
        with pytest.raises(OutOfTime):
            clock.check()
    endless.check()
