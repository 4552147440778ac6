"""Signals that ask a run to end, noted and left for the run to act on between two steps."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Inside the block SIGTERM and SIGINT only set `received`; a second one acts as it did before."""

    def __init__(self) -> None:
        self.received: str | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in ENDING}
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number).name
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __exit__(self, *error: object) -> None:
        self._restore()
