"""The command line: one thin file per verb."""

from onebasin.cli.app import main

__all__ = ["main"]
