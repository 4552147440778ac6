"""Signals that ask a process to end: taken between two steps of learning, or like Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

HANG_UP = getattr(signal, "SIGHUP", None)  # the terminal is gone; Windows has no such signal
ENDING = (signal.SIGTERM, *([HANG_UP] if HANG_UP else []))


class Signals:
    """Inside the block signals that end a program only set `received`; a second one acts as it did before.

    One that is ignored stays so: `nohup` means what it says.
    """

    def __init__(self) -> None:
        self.received: str | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            heard = [x for x in (*ENDING, signal.SIGINT) if signal.getsignal(x) not in (signal.SIG_IGN, None)]
            self._before = {number: signal.signal(number, self._note) for number in heard}
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number).name
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __exit__(self, *error: object) -> None:
        self._restore()


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside the block SIGTERM and SIGHUP raise KeyboardInterrupt, so that what is unfinished is cleaned up.

    Only where they would end the process at once: handlers of the program's own stay, and so does `nohup`.  After the
    first, more of them change nothing, for a terminal that closes sends several.
    """
    alone = threading.current_thread() is threading.main_thread()
    deadly = [x for x in ENDING if signal.getsignal(x) is signal.SIG_DFL] if alone else []

    def end(number: int, frame: FrameType | None) -> None:
        for x in deadly:
            signal.signal(x, signal.SIG_IGN)
        raise KeyboardInterrupt(signal.Signals(number).name)

    try:
        for x in deadly:
            signal.signal(x, end)
        yield
    finally:
        for x in deadly:
            signal.signal(x, signal.SIG_DFL)
