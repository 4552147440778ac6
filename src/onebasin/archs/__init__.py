"""One declaration per model family.  The only place that knows architecture names."""

from onebasin.archs.registry import architecture, declare, known, lookup

__all__ = ["architecture", "declare", "known", "lookup"]
