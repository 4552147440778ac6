"""Finding alignments without training: from weights, or from activations on unlabelled inputs."""

from onebasin.match.activations import match_activations
from onebasin.match.options import PRESETS, ActivationMatching, WeightMatching
from onebasin.match.pair import Pair
from onebasin.match.weights import Matched, match_weights

__all__ = ["PRESETS", "ActivationMatching", "Matched", "Pair", "WeightMatching", "match_activations", "match_weights"]
