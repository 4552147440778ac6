"""The command line: thin files, one or a few verbs each."""

from onebasin.cli.app import main

__all__ = ["main"]
