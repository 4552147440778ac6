"""Which of the processes that `torchrun` started this is, before torch is there to say so."""

from __future__ import annotations

import os


def rank() -> int:
    """The number of this process; 0 for the first, and for one alone."""
    return int(os.environ.get("RANK", "0")) if together() else 0


def together() -> bool:
    """Whether this process is one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1
