"""Alignments and what they do to checkpoints."""

from onebasin.alignment.alignment import Alignment
from onebasin.alignment.apply import move, moved_by, transport

__all__ = ["Alignment", "move", "moved_by", "transport"]
