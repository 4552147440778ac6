"""What a run tells, as text; and callbacks that are told it."""

from __future__ import annotations

import pytest

from onebasin.events import Callback, Callbacks, End, Step, Validation
from onebasin.events.trackers import Tracker


def test_a_step_is_one_line():
    step = Step(3, 10, 1.23456, -0.5, 12.345, 9.0)
    assert str(step) == "step 3/10, loss 1.2346, barrier at ½ about 0.0000, 12.3 steps/s"
    assert "barrier at the centre about 0.2500" in str(Step(3, 10, 1.0, 0.25, 1.0, 1.0, models=3))


@pytest.mark.parametrize(
    ("loss", "best", "said"),
    [
        (None, True, "validation at step 4: midpoint 2.0000, barrier 0.5000, the best so far"),
        (1.5, False, "validation at step 4: training loss 1.5000, midpoint 2.0000, barrier 0.5000"),
    ],
)
def test_a_validation_is_one_line(loss, best, said):
    assert str(Validation(4, loss, 2.0, 0.5, best, 1.0)) == said


def test_an_end_says_how_and_what_was_best():
    assert str(End(9, 6, 0.5, 0.1, 3.0)) == "learning done after step 9, best at step 6: midpoint 0.5000"
    assert str(End(2, 0, None, None, 3.0, "Diverged")) == "learning ended by Diverged after step 2"


def test_every_callback_is_told_everything():
    told: list[tuple[str, str, object]] = []

    class Heard(Callback):
        def __init__(self, name: str) -> None:
            for event in ("on_step", "on_validation", "on_end"):
                setattr(self, event, lambda what, event=event: told.append((name, event, what)))

    both = Callbacks(Heard(name) for name in "ab")
    for event in ("on_step", "on_validation", "on_end"):
        getattr(both, event)(event)
    assert told == [(name, event, event) for event in ("on_step", "on_validation", "on_end") for name in "ab"]


def test_a_tracker_opens_with_the_first_number_and_closes_once():
    told: list[object] = []
    tracker = Tracker(lambda: told.append("open") or (lambda *logged: told.append(logged), told.append))
    tracker.on_end(End(0, 0, None, None, 0.0))  # nothing was opened
    assert told == []
    tracker.on_step(Step(1, 2, 0.5, 0.25, 4.0, 1.0))
    tracker.on_validation(Validation(2, None, 1.5, 0.75, True, 1.0))
    tracker.on_end(End(2, 2, 1.5, 0.75, 1.0))
    tracker.on_end(End(2, 2, 1.5, 0.75, 1.0))
    assert told == [
        "open", ({"learning/loss": 0.5, "learning/steps_per_second": 4.0}, 1),
        ({"validation/midpoint": 1.5, "validation/barrier": 0.75}, 2), True,
    ]  # fmt: skip
    tracker.on_step(Step(1, 2, 0.5, 0.25, 4.0, 1.0))
    tracker.on_end(End(2, 2, 1.5, 0.75, 1.0, "Diverged"))
    assert (told[4], told[-1]) == ("open", False)
