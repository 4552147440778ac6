"""Weights between models: the straight path, the path of circuits, and where on them a loss is taken."""

from onebasin.checkpoint import Checkpoint
from onebasin.errors import OnebasinError
from onebasin.paths.circuit import CircuitPath
from onebasin.paths.factor import FactorPath
from onebasin.widening.widen import to_one_size

__all__ = ["CircuitPath", "FactorPath", "path_between"]


def path_between(name: str, *models: Checkpoint) -> FactorPath:
    """The path of that name, "factor" or "circuit"; between models of unequal size, the smaller ones are widened."""
    kinds: dict[str, type[FactorPath]] = {kind.name: kind for kind in (FactorPath, CircuitPath)}
    if name not in kinds:
        raise OnebasinError(
            "There is no such path", expected=", ".join(kinds), found=name, next_step="use one of these"
        )
    return kinds[name](*to_one_size(*models))
