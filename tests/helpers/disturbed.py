"""The command line as a program to which something happens: `python -m helpers.disturbed WHAT align A B ...`.

A pause prints "here" and waits for the test to send a signal.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from helpers.demos import tiny
from onebasin.cli import main
from onebasin.demo import VARIANTS
from onebasin.errors import BadTask
from onebasin.learn.steps import Steps
from onebasin.recipes import running

one = Steps.one


def pause(*_: object, **__: object) -> str:
    print("here", flush=True)  # noqa: T201
    time.sleep(120)
    return "nobody has sent a signal"


def pause_in_step_2(steps: Steps) -> None:
    if steps.done == 1:
        print("here", flush=True)  # noqa: T201
        time.sleep(0.5)  # a signal is taken between steps
    one(steps)


def fail_in_step_3(steps: Steps) -> None:
    if steps.done == 2:
        raise RuntimeError("the second process has a bug")
    one(steps)


def fail_in_checks(*_: object, **__: object) -> None:
    raise BadTask("the second process has no data")


def first_of_two() -> None:
    """Run what stands before "and then", and leave the rest as the command."""
    place = sys.argv.index("and then")
    try:
        main(sys.argv[2:place])
    except SystemExit as end:
        if end.code:
            raise
    sys.argv[2:] = sys.argv[place + 1 :]


def tiny_demo() -> None:
    Steps.one = pause_in_step_2
    VARIANTS["image", True] = tiny("image")


CHANGES: dict[str, Callable[[], None]] = {
    "writing": lambda: setattr(running, "card_of", pause),
    "demo": tiny_demo,
    "two commands": first_of_two,
    "second fails in a step": lambda: setattr(Steps, "one", fail_in_step_3) if os.environ["RANK"] == "1" else None,
    "second fails in checks": lambda: (
        setattr(running, "prepare", fail_in_checks) if os.environ["RANK"] == "1" else None
    ),
}

if __name__ == "__main__":
    CHANGES[sys.argv[1]]()
    main(sys.argv[2:])
