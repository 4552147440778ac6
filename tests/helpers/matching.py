"""Matching of one pair by a method's options, its section `paper` included."""

from __future__ import annotations

from collections.abc import Callable

import torch

from onebasin import Alignment, Checkpoint
from onebasin.ensemble.aligned import Aligned
from onebasin.ensemble.ensemble import Ensemble
from onebasin.match.options import WeightMatching
from onebasin.match.pages import Pages
from onebasin.match.pair import Pair
from onebasin.match.weights import Matched, match_weights
from onebasin.methods.method import Job, Method
from onebasin.methods.weight import Weight
from onebasin.papers.options import PRESETS
from onebasin.papers.strategies import strategy_of

CPU = Job(torch.device("cpu"))


def preset(name: str, **changes: object) -> Weight:
    return Weight(**{**PRESETS[name], **changes})


def paper(**options: object) -> Weight:
    """Weight matching with these options of its section `paper`."""
    return Weight(paper=options)


def match(pair: Pair, options: WeightMatching | None = None, **more: object) -> Matched:
    strategy = strategy_of(options.paper) if isinstance(options, Weight) else None
    return match_weights(Pages.whole(pair), options, strategy, **more)


def matcher(options: WeightMatching | None = None) -> Callable[[Checkpoint, Checkpoint, Alignment | None], Matched]:
    """ALIGN of `match_ensemble`, by weights."""
    return lambda a, b, start=None: match(Pair.of(a, b), options, start=start)


def align(*models: Checkpoint, method: Method | None = None) -> Aligned:
    """All models in the basis of the first; by weights, unless another method is given that needs no data."""
    return (method or Weight()).run(Ensemble.of(models), None, CPU)
