"""Obstacle: one thing that stands between two models."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Obstacle:
    """One difference.  `blocks` is False where onebasin can deal with it and only says so."""

    what: str
    a: object
    b: object
    next_step: str
    blocks: bool = True
