"""What was measured: pictures, certificates, model cards."""

from onebasin.report.curves import plot

__all__ = ["plot"]
