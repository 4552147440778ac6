"""What an alignment does, for people to look at: where heads go, and by which angles streams turn."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from onebasin.alignment import Alignment
from onebasin.families import PERMUTATION
from onebasin.maps import Isometry

BINS = 18  # of ten degrees


def head_places(alignment: Alignment) -> dict[str, list[int]]:
    """Space of heads -> places: head places[i] of B goes where head i of A is.

    Heads are what other spaces lie over, and the queries that lie over them; units of an FFN are neither.
    """
    bases = set(alignment.bases.values()) - {None}
    return {
        name: _places(alignment, name).tolist()
        for name, g in alignment.maps.items()
        if g.family == PERMUTATION and (name in bases or alignment.bases[name] in bases)
    }


def _places(alignment: Alignment, name: str) -> Tensor:
    """Of queries that lie over groups: group p receives group G[p] of B, and in it query q receives Q[G[p], q]."""
    index, base = alignment[name].tensors()["index"], alignment.bases[name]
    if base is None:
        return index
    groups, size = alignment[base].tensors()["index"], index.shape[-1]
    return (groups[:, None] * size + index[groups]).flatten()


def turning_angles(alignment: Alignment) -> dict[str, list[int]]:
    """Rotated space -> how many of its directions turn by 0 to 10, 10 to 20, ..., 170 to 180 degrees.

    Q is normal with eigenvalues e^{±iθ}, so (Q + Qᵀ)/2 is symmetric with eigenvalues cos θ: a problem that is many
    times cheaper.
    """
    return {name: _histogram(g.matrix) for name, g in alignment.maps.items() if isinstance(g, Isometry)}


def _histogram(q: Tensor) -> list[int]:
    cosines = torch.linalg.eigvalsh((q + q.mT) / 2).clamp(-1, 1)
    degrees = cosines.acos() * (180 / math.pi)
    return [int(count) for count in torch.histc(degrees, BINS, 0, 180)]
