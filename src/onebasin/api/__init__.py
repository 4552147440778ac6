"""The verbs for Python: what the command line does, on folders, Hub ids, open checkpoints and live models."""

from onebasin.api.verbs import align, barrier, inspect, merge, verify, widen
from onebasin.checkpoint.sources import Source, live
from onebasin.ensemble.aligned import Aligned

__all__ = ["Aligned", "Source", "align", "barrier", "inspect", "live", "merge", "verify", "widen"]
