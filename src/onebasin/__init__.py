"""onebasin: align, interpolate and merge independently trained Transformers through the symmetries of their weights."""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onebasin.aligning import Aligned, align
    from onebasin.alignment import Alignment, transport
    from onebasin.canonical.form import Canonical, canonicalize
    from onebasin.canonical.gauge import in_gauge_of
    from onebasin.checkpoint import Checkpoint
    from onebasin.errors import OnebasinError
    from onebasin.inspection import describe, describe_pair
    from onebasin.verification import Verification, verify
    from onebasin.widening.widen import widen

try:
    __version__ = version("onebasin")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0.1.0"

_WHERE = {
    "Aligned": "onebasin.aligning",
    "Alignment": "onebasin.alignment",
    "Canonical": "onebasin.canonical.form",
    "Checkpoint": "onebasin.checkpoint",
    "OnebasinError": "onebasin.errors",
    "Verification": "onebasin.verification",
    "align": "onebasin.aligning",
    "canonicalize": "onebasin.canonical.form",
    "describe": "onebasin.inspection",
    "describe_pair": "onebasin.inspection",
    "in_gauge_of": "onebasin.canonical.gauge",
    "transport": "onebasin.alignment",
    "verify": "onebasin.verification",
    "widen": "onebasin.widening.widen",
}

__all__ = [
    "Aligned", "Alignment", "Canonical", "Checkpoint", "OnebasinError", "Verification", "align", "canonicalize",
    "describe", "describe_pair", "in_gauge_of", "transport", "verify", "widen",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Public names are imported when first used, so that `import onebasin` costs nothing."""
    if name not in _WHERE:
        raise AttributeError(f"module 'onebasin' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
