"""Measuring: loss and metrics of a model, curves along paths, surfaces over simplexes, and their barriers."""

from onebasin.landscape.curve import Curve, measure
from onebasin.landscape.evaluate import Evaluation, evaluate, pick_device
from onebasin.landscape.surface import Surface, measure_simplex

__all__ = ["Curve", "Evaluation", "Surface", "evaluate", "measure", "measure_simplex", "pick_device"]
