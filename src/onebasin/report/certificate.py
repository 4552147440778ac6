"""The certificate: what an aligned model is worth, measured on the model itself."""

from __future__ import annotations

from typing import Any

import torch

from onebasin.aligning import Aligned
from onebasin.alignment import Alignment
from onebasin.checkpoint import Checkpoint
from onebasin.families import ORTHOGONAL, PERMUTATION
from onebasin.report.movements import head_places, turning_angles
from onebasin.report.versions import versions
from onebasin.verification import drifts


def certificate(original: Checkpoint, aligned: Aligned) -> dict[str, Any]:
    """Output drift of aligned B against `original` B by dtype, and what the maps are and did."""
    distances = aligned.matched.distances
    return {
        **exactness(original, aligned.b, aligned.alignment),
        "gauge": gauge_words(aligned.reason),
        "distance_before": distances[0],
        "distance_after": distances[-1],
        "sweeps": len(distances) - 1,
        "converged": aligned.matched.converged,
        "orthogonality_error": orthogonality_error(aligned.alignment),
        "families": {name: g.family.name for name, g in aligned.alignment.maps.items()},
        "displacement": aligned.alignment.displacement(),
        "moved_units": moved_units(aligned.alignment),
        "heads": head_places(aligned.alignment),
        "angles": turning_angles(aligned.alignment),
        "versions": versions(),
    }


def exactness(original: Checkpoint, written: Checkpoint, alignment: Alignment | None = None) -> dict[str, Any]:
    """Output drift by dtype of what is written against the original, moved by an alignment or by none."""
    drift, rounding = drifts(original, written.in_memory(), alignment or Alignment.identity(written.spec))
    return {"output_drift": drift, "rounding_alone": rounding}


def gauge_words(reason: str | None) -> str:
    """In which gauge the result is written; `reason` is why that is not the reference's."""
    return "the reference's" if reason is None else f"canonical, all models: {reason}"


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
