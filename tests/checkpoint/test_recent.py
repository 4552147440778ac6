"""What was made a moment ago is not made again; within a bound, in whatever threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from onebasin.checkpoint.recent import FEW, Recent


def test_the_last_ones_are_kept_within_the_bound():
    recent, made = Recent(most=24), []

    def take(name: str, numbers: int = 1) -> float:
        def make() -> torch.Tensor:
            made.append(name)
            return torch.full((numbers,), float(ord(name)), dtype=torch.float64)

        return float(recent.take(name, make)[0])

    for name in "abcabc":
        assert take(name) == ord(name)
    assert made == list("abc")
    take("a")  # the last one again
    take("d")
    assert made == list("abcd")
    take("a")
    take("c")
    assert made == list("abcd")
    take("b")
    assert made == list("abcdb")
    take("x", 4)  # larger than all there is room for
    take("x", 4)
    assert made == list("abcdbxx")


def test_they_are_few_however_small():
    recent = Recent()
    for i in range(3 * FEW):
        recent.take(i, lambda: torch.ones(1))
        assert len(recent.kept) == min(i + 1, FEW)
    assert [*recent.kept] == [*range(2 * FEW, 3 * FEW)]


def test_one_that_is_in_the_making_is_waited_for():
    recent, began, go, made = Recent(), threading.Event(), threading.Event(), []

    def make() -> torch.Tensor:
        made.append(1)
        began.set()
        assert go.wait(5)
        return torch.ones(3)

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(recent.take, "w", make) for _ in range(4)]
        assert began.wait(5)
        assert not any(x.done() for x in waiting)
        go.set()
        assert len({id(x.result()) for x in waiting}) == 1
    assert made == [1]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_failure_is_not_kept(failure):
    recent = Recent()

    def fail() -> torch.Tensor:
        raise failure

    with pytest.raises(failure):
        recent.take("w", fail)
    assert recent.take("w", lambda: torch.ones(2)).sum() == 2
    assert len(recent.kept) == 1
