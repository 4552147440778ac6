"""What was measured: pictures, certificates, model cards."""

from onebasin.report.pictures import plot

__all__ = ["plot"]
