"""How alike aligned models are, part by part: layers before and after, and every head with every other.

All of it is read from the weights, one layer or one pair of leaves at a time; models that are too large for that to be
cheap have no such figures.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor

from onebasin.ensemble.aligned import Aligned
from onebasin.ensemble.likeness import layer_cosines
from onebasin.match.circuits import Circuits, group_space, inner_spaces
from onebasin.match.heads import head_costs
from onebasin.match.pair import Pair
from onebasin.verification.certificate import head_places

LARGEST = 2**27  # parameters of a model that is still compared


def similarity(aligned: Aligned, which: int = 1) -> dict[str, Any]:
    """`layers`: median cosine of a layer's matrices with A's, as it was and aligned.  `head_scores`: see there."""
    if sum(map(prod, aligned.ensemble.spec.keys.values())) > LARGEST:
        return {}
    before = layer_cosines(aligned.ensemble.forms[0], aligned.ensemble.forms[which])
    after = layer_cosines(aligned.ensemble.forms[0], aligned.placed(which).in_memory())
    layers = {name: [round(before[name], 4), round(after[name], 4)] for name in before if name in after}
    return {"layers": layers, "head_scores": head_scores(aligned, which)}


def head_scores(aligned: Aligned, which: int = 1) -> dict[str, list[list[float]]]:
    """Space of heads -> row i, column j: how alike the head in place i and head j of the model are, in one basis.

    The cosine of what they compute, the mean over their circuits: 1 for the same, about 0 for strangers.
    """
    a, b = (aligned.forms[i].kept_if_small() for i in (0, which))
    places, found, pair = head_places(a.spec, aligned.alignments[which]), {}, Pair.of(a, b)
    for space in (name for name in places if inner_spaces(a.spec, name)):
        scores = head_costs(pair, {}, space, circuit_cosine) / len(inner_spaces(a.spec, space))
        queries = group_space(a.spec, space)
        if queries in places:
            found[queries] = _by_head(scores.flatten(2).flatten(0, 1), places[queries])
        found[space] = _by_head(scores.amax(-1).mean(1), places[space])  # of a group: each query and its nearest
    return found


def circuit_cosine(a: Circuits, b: Circuits) -> Tensor:
    """The cosine between all pairs of heads, (h, g, h, g); 0 where a circuit is zero."""
    size = (a.square[:, :, None, None] * b.square).sqrt()
    return torch.where(size > 0, a.inner(b) / size, 0.0)


def _by_head(scores: Tensor, places: list[int]) -> list[list[float]]:
    """Columns by the head as it was, not by the place that it took."""
    ordered = scores[:, torch.tensor(places).argsort()]
    return [[round(x, 3) for x in row] for row in ordered.tolist()]
