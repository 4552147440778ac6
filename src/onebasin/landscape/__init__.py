"""Measuring: loss and metrics of a model, curves and surfaces between models, and their barriers."""

from onebasin.landscape.curve import Curve, Surface, measure
from onebasin.landscape.evaluate import Evaluation, evaluate

__all__ = ["Curve", "Evaluation", "Surface", "evaluate", "measure"]
