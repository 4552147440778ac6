"""The verbs for Python: what the command line does, on folders, Hub ids, open checkpoints and live models."""

from onebasin.api.aligned import AlignedModels
from onebasin.api.sources import Source, live
from onebasin.api.verbs import align, barrier, inspect, merge, verify, widen

__all__ = ["AlignedModels", "Source", "align", "barrier", "inspect", "live", "merge", "verify", "widen"]
