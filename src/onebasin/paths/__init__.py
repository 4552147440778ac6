"""Weights between models: the straight path, the path of circuits, the simplex, and where on them a loss is taken."""

from onebasin.checkpoint import Checkpoint
from onebasin.errors import OnebasinError
from onebasin.paths.circuit import CircuitPath
from onebasin.paths.simplex import Simplex
from onebasin.paths.straight import FactorPath, Path
from onebasin.widening.widen import to_one_size

__all__ = ["CircuitPath", "FactorPath", "Path", "Simplex", "path_between"]


def path_between(name: str, a: Checkpoint, b: Checkpoint) -> Path:
    """The path of that name, "factor" or "circuit"; between models of unequal size, the smaller is widened."""
    kinds: dict[str, type[Path]] = {kind.name: kind for kind in (FactorPath, CircuitPath)}
    if name not in kinds:
        raise OnebasinError(
            "There is no such path", expected=", ".join(kinds), found=name, next_step="use one of these"
        )
    return kinds[name](*to_one_size(a, b))
