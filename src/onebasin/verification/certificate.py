"""The certificate: what an aligned model is worth, measured on the model itself."""

from __future__ import annotations

from typing import Any

import torch

from onebasin.alignment import Alignment
from onebasin.ensemble.aligned import Aligned
from onebasin.ensemble.words import describe_gauge
from onebasin.families import ORTHOGONAL, PERMUTATION
from onebasin.verification.movements import head_places, turning_angles
from onebasin.verification.verify import drifts
from onebasin.verification.versions import versions


def certificate(aligned: Aligned, which: int = 1) -> dict[str, Any]:
    """Output drift of an aligned model against the original by dtype, and what its maps are and did."""
    alignment, (before, after) = aligned.alignments[which], aligned.distances(which)
    return {
        **exactness(aligned, which),
        "gauge": describe_gauge(aligned.reason),
        "distance_before": before,
        "distance_after": after,
        "orthogonality_error": orthogonality_error(alignment),
        "families": {name: g.family.name for name, g in alignment.maps.items()},
        "displacement": alignment.displacement(),
        "moved_units": moved_units(alignment),
        "heads": head_places(alignment),
        "angles": turning_angles(alignment),
        "versions": versions(),
    }


def exactness(aligned: Aligned, which: int) -> dict[str, Any]:
    """Output drift by dtype of what is written of model `which` against the original."""
    original, written = aligned.ensemble.models[which], aligned.models[which].in_memory()
    drift, rounding = drifts(original, written, aligned.alignments[which], table=aligned.ensemble.tables[which])
    return {"output_drift": drift, "rounding_alone": rounding}


def orthogonality_error(alignment: Alignment) -> float:
    """max |QᵀQ − I| over the maps that should be orthogonal."""
    worst = 0.0
    for g in alignment.maps.values():
        if g.family <= ORTHOGONAL:
            q = g.dense()
            worst = max(worst, float((q.mT @ q - torch.eye(q.shape[-1], dtype=q.dtype)).abs().max()))
    return worst


def moved_units(alignment: Alignment) -> dict[str, str]:
    """For spaces that only reorder: how many units changed places."""
    counts = {}
    for name, g in alignment.maps.items():
        if g.family == PERMUTATION:
            index = g.tensors()["index"]
            moved = int((index != torch.arange(index.shape[-1])).sum())
            counts[name] = f"{moved} of {index.numel()}"
    return counts
