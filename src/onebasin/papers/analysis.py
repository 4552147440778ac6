"""What learning changed (first paper, section 6): eigen-angles of the corrections, changed assignments, distances."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from onebasin.alignment import Alignment
from onebasin.ensemble.aligned import Aligned
from onebasin.families import ORTHOGONAL
from onebasin.linalg import assign
from onebasin.maps import DoublyStochastic, Map
from onebasin.maps.indexed import Indexed
from onebasin.papers.strategies import RelaxedMove


def analyse(start: Aligned, learned: Aligned, which: int = 1) -> dict[str, dict[str, Any]]:
    """For every space that moved since `start`, and every norm whose gains did: how far, and how; plain data."""
    move = learned.moves[which]
    correction = move.correction if isinstance(move, RelaxedMove) else corrected(start, learned, which)
    spaces = {name: _about(g) for name, g in correction.maps.items() if g.distance() > 1e-12}
    return {**spaces, **{norm: _about_gain(factor) for norm, factor in move.gains.items()}}


def corrected(start: Aligned, learned: Aligned, which: int = 1) -> Alignment:
    """The map that learning put after the one it began with."""
    return learned.alignments[which].compose(start.alignments[which].inverse())


def _about_gain(factor: Tensor) -> dict[str, Any]:
    return {"displacement": float((factor - 1).norm()), "log_scale_spread": float(factor.log().std(correction=0))}


def _about(g: Map) -> dict[str, Any]:
    about: dict[str, Any] = {"family": g.family.name, "displacement": g.distance()}
    if isinstance(g, Indexed):
        index, scale = g.tensors()["index"], g.tensors()["scale"]
        about["assignments_changed"] = f"{int((index != torch.arange(index.shape[-1])).sum())} of {index.numel()}"
        about["log_scale_spread"] = float(scale.abs().log().std(correction=0))
    elif g.family <= ORTHOGONAL:
        about["eigen_angles"] = _summary(eigen_angles(g.dense()))
    elif isinstance(g, DoublyStochastic):
        hard = one_hot(assign(g.matrix), g.source)
        about["distance_from_a_permutation"] = float((g.matrix - hard).norm() / hard.sum().sqrt())
    else:
        about["log_singular_values"] = _summary(torch.linalg.svdvals(g.dense()).log())
    return about


def eigen_angles(q: Tensor) -> Tensor:
    """θ of the eigenvalues e^{±iθ} of a rotation (..., n, n), from 0 to π: how far each plane turns."""
    angles: Tensor = torch.linalg.eigvals(q).angle()
    return angles.abs().flatten()


def _summary(values: Tensor) -> dict[str, float]:
    shares = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0], dtype=values.dtype)
    names = ("least", "quarter", "median", "three_quarters", "largest")
    return dict(zip(names, values.flatten().quantile(shares).tolist(), strict=True))
