"""report.html: what a run measured, as one page that needs nothing else."""

from onebasin.report.html.page import write_report

__all__ = ["write_report"]
