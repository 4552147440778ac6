"""How many examples a property is tried on: `make test-all` tries more (ONEBASIN_EXAMPLES times as many)."""

from __future__ import annotations

import os

from hypothesis import settings

TIMES = int(os.environ.get("ONEBASIN_EXAMPLES", "1"))


def examples(count: int, **options: object) -> settings:
    """A decorator for `count` examples, or as many times more as were asked for."""
    return settings(max_examples=count * TIMES, **options)
