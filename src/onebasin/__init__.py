"""onebasin: align, interpolate and merge independently trained Transformers through the symmetries of their weights."""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onebasin.alignment import Alignment
    from onebasin.alignment import transport as transport
    from onebasin.api import Aligned, align, barrier, evaluate, inspect, live, merge, verify, widen
    from onebasin.canonical.form import canonicalize as canonicalize
    from onebasin.canonical.gauge import in_gauge_of as in_gauge_of
    from onebasin.checkpoint import Checkpoint
    from onebasin.ensemble.inspection import describe as describe
    from onebasin.ensemble.inspection import describe_pair as describe_pair
    from onebasin.errors import OnebasinError
    from onebasin.events import Callback

try:
    __version__ = version("onebasin")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0.1.0"

__all__ = [
    "Aligned", "Alignment", "Callback", "Checkpoint", "OnebasinError", "align", "barrier", "evaluate", "inspect",
    "live", "merge", "verify", "widen",
]  # fmt: skip

_WHERE = {
    **dict.fromkeys(("Aligned", "align", "barrier", "evaluate", "inspect", "live", "merge", "verify", "widen"), "api"),
    "Alignment": "alignment",
    "Callback": "events",
    "Checkpoint": "checkpoint",
    "OnebasinError": "errors",
    # what the verbs are made of
    "canonicalize": "canonical.form",
    "describe": "ensemble.inspection",
    "describe_pair": "ensemble.inspection",
    "in_gauge_of": "canonical.gauge",
    "transport": "alignment",
}


def __dir__() -> list[str]:
    """The public names, also those that are not imported yet."""
    return sorted({*_WHERE, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    """Public names are imported when first used, so that `import onebasin` costs nothing."""
    if name not in _WHERE:
        raise AttributeError(f"module 'onebasin' has no attribute {name!r}")
    return getattr(importlib.import_module(f"onebasin.{_WHERE[name]}"), name)
