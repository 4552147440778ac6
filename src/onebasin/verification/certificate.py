"""The certificate: what an aligned model is worth, measured on the model itself, and what its maps did."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from onebasin import __version__
from onebasin.alignment import Alignment
from onebasin.ensemble.aligned import Aligned
from onebasin.ensemble.words import describe_gauge
from onebasin.errors import BrokenPromise
from onebasin.families import PERMUTATION
from onebasin.maps import Isometry
from onebasin.spec import ModelSpec
from onebasin.verification.verify import PROMISE, drifts, keeps_promise

BINS = 18  # of ten degrees


def certificate(aligned: Aligned, which: int = 1) -> dict[str, Any]:
    """Output drift of an aligned model against the original by dtype, and what its maps are and did."""
    device = aligned.ensemble.models[which].store.device
    alignment, (before, after) = aligned.alignments[which].to(device), aligned.distances(which)
    return {
        **exactness(aligned, which),
        "gauge": describe_gauge(aligned.reason),
        "distance_before": before,
        "distance_after": after,
        "orthogonality_error": orthogonality_error(alignment),
        "families": {name: g.family.name for name, g in alignment.maps.items()},
        "displacement": alignment.displacement(),
        "moved_units": moved_units(alignment),
        "heads": head_places(aligned.ensemble.spec, alignment),
        "angles": turning_angles(alignment),
        "versions": versions(),
    }


def exactness(aligned: Aligned, which: int) -> dict[str, Any]:
    """Output drift by dtype of what is written of model `which` against the original."""
    original, written = aligned.ensemble.models[which], aligned.models[which].kept_if_small()
    found = drifts(original, written, aligned.alignments[which], table=aligned.ensemble.tables[which])
    return {"output_drift": found.drift, "rounding_alone": found.rounding, "largest_output": found.scale}


def check_exact(report: Mapping[str, Any]) -> None:
    """Refuse a result that does not compute what its originals do; `report` is the whole certificate."""
    for own in (*report.get("aligned", [report]), *([report["reference"]] if "reference" in report else [])):
        drift, scale = own["output_drift"]["float64"], own["largest_output"]
        if not keeps_promise(drift, scale):
            raise BrokenPromise(
                "The moved model does not compute what the original does",
                expected=f"a drift of at most {PROMISE:g} in float64, per unit of outputs up to {scale:.3g}",
                found=f"{drift:.2g}",
                next_step="look at each model with `onebasin verify`: numbers of very different size, or outputs that "
                "are not finite",
            )


def orthogonality_error(alignment: Alignment) -> float:
    """max |QᵀQ − I| over the maps that are stored as rotations."""
    rotations = (g.dense() for g in alignment.maps.values() if isinstance(g, Isometry))
    errors = (q.mT @ q - torch.eye(q.shape[-1]).to(q) for q in rotations)
    return max((float(error.abs().max()) for error in errors), default=0.0)


def moved_units(alignment: Alignment) -> dict[str, str]:
    """For spaces that only reorder: how many units changed places."""
    orders = {name: g.tensors()["index"] for name, g in alignment.maps.items() if g.family == PERMUTATION}
    moved = {name: int((index.cpu() != torch.arange(index.shape[-1])).sum()) for name, index in orders.items()}
    return {name: f"{moved[name]} of {index.numel()}" for name, index in orders.items()}


def head_places(spec: ModelSpec, alignment: Alignment) -> dict[str, list[int]]:
    """Space of heads or experts -> places: head places[i] of B goes where head i of A is.

    Queries that lie over heads are heads as well; units of an FFN, or of an expert, are not.
    """
    return {
        name: _places(alignment, name).tolist()
        for name, g in alignment.maps.items()
        if g.family == PERMUTATION and (name in spec.heads | spec.experts or alignment.bases[name] in spec.heads)
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


def versions() -> dict[str, str]:
    """Release numbers of the package, of Python and of what the numbers depend on."""
    others = {name: version(name) for name in ("torch", "transformers")}
    return {"onebasin": __version__, "python": platform.python_version(), **others}
