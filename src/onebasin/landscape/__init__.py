"""Loss landscapes: paths and simplexes between models, evaluation, curves, surfaces and barriers."""

from onebasin.checkpoint import Checkpoint
from onebasin.errors import OnebasinError
from onebasin.landscape.circuit import CircuitPath
from onebasin.landscape.curve import Curve, measure
from onebasin.landscape.evaluate import Evaluation, evaluate, pick_device
from onebasin.landscape.paths import FactorPath, WeightPath
from onebasin.landscape.simplex import Simplex
from onebasin.landscape.surface import Surface, measure_simplex
from onebasin.widening.widen import to_one_size

__all__ = [
    "CircuitPath", "Curve", "Evaluation", "FactorPath", "Simplex", "Surface", "WeightPath", "evaluate", "measure",
    "measure_simplex", "path_between", "pick_device",
]  # fmt: skip


def path_between(name: str, a: Checkpoint, b: Checkpoint) -> WeightPath:
    """The path of that name, "factor" or "circuit"; between models of unequal size, the smaller is widened."""
    kinds: dict[str, type[WeightPath]] = {kind.name: kind for kind in (FactorPath, CircuitPath)}
    if name not in kinds:
        raise OnebasinError(
            "There is no such path", expected=", ".join(kinds), found=name, next_step="use one of these"
        )
    return kinds[name](*to_one_size(a, b))
