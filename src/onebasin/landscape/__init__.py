"""Measuring: loss and metrics of a model, curves and surfaces between models, and their barriers."""

from onebasin.landscape.curve import Curve, Surface, measure
from onebasin.landscape.evaluate import Evaluation, evaluate
from onebasin.landscape.scores import Scores, score

__all__ = ["Curve", "Evaluation", "Scores", "Surface", "evaluate", "measure", "score"]
