"""How long work will take."""

from __future__ import annotations

import time


class Pace:
    """The time left, from how quickly it went since this kind of work began; its kind stands before a colon."""

    def __init__(self) -> None:
        self._start: tuple[str, float, float] | None = None  # the kind, what was done then, and when

    def left(self, step: str, done: float, total: float) -> str:
        """Minutes and seconds in words; nothing where that cannot be known yet."""
        now, kind = time.monotonic(), step.partition(":")[0]
        if self._start is None or kind != self._start[0] or done < self._start[1]:
            self._start = kind, done, now
        _, first, began = self._start
        if not total or done <= first:
            return ""
        minutes, seconds = divmod(round((now - began) / (done - first) * (total - done)), 60)
        return f"{minutes}:{seconds:02d} left"
