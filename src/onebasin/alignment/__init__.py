"""Alignments and what they do to checkpoints."""

from onebasin.alignment.alignment import Alignment
from onebasin.alignment.apply import move, transport

__all__ = ["Alignment", "move", "transport"]
