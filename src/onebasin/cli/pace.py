"""How long work will take."""

from __future__ import annotations

import time


class Pace:
    """The time left, from how quickly it went since this kind of work began; its kind stands before a colon."""

    def __init__(self) -> None:
        self._kind, self._first, self._began = "", 0.0, 0.0

    def left(self, step: str, done: float, total: float) -> str:
        """Minutes and seconds in words; nothing where that cannot be known yet."""
        now, kind = time.monotonic(), step.partition(":")[0]
        if kind != self._kind or done < self._first:
            self._kind, self._first, self._began = kind, done, now
        if not total or done <= self._first:
            return ""
        minutes, seconds = divmod(round((now - self._began) / (done - self._first) * (total - done)), 60)
        return f"{minutes}:{seconds:02d} left"
