"""The section `paper` of a method: what a paper does otherwise.  Nothing here is needed to align models well.

Free of torch; `onebasin.papers.strategies` has what the options stand for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from onebasin.options import Count, Options, Size


@dataclass(frozen=True)
class PaperMatching(Options):
    """Weight matching as the first two papers compare it.

    guard: refuse every step after the first round that raises the distance.
    moments: what the stream is fitted to in attention: "circuits" (the products QK and OV of every head, both sides;
        the distance is then that of circuits, and the maps inside heads, which it does not see, are solved once at
        the end), "factors" (queries, keys, values and outputs one by one) or "p1-code" (see `matching.py`).
    weighting: how much a block counts, "balanced", "raw", "angle" or "columns" (see `matching.py`).
    head_metric: distance of circuits.
    unit_cost: resemblance of hidden units, "inner" (products) or "l1" (distance of rows, see `unit_rows.py`).
    """

    guard: bool = True
    moments: Literal["circuits", "factors", "p1-code"] = "circuits"
    weighting: Literal["balanced", "raw", "angle", "columns"] = "balanced"
    head_metric: Literal["frobenius-squared", "frobenius", "cosine", "normalised", "spectral"] = "frobenius-squared"
    unit_cost: Literal["inner", "l1"] = "inner"


PRESETS: dict[str, dict[str, Any]] = {  # sections of the method weight
    "p1-paper": {"sweeps": 15, "tol": 0, "paper": {"guard": False, "moments": "circuits", "weighting": "raw"}},
    "p1-code": {
        "sweeps": 15, "tol": 0,
        "paper": {
            "guard": False, "moments": "p1-code", "weighting": "columns", "head_metric": "frobenius", "unit_cost": "l1",
        },
    },
    "permutation": {"residual": "permutation", "inside": "permutation", "units": "permutation"},
}  # fmt: skip
"""p1-paper follows the text of the first paper and p1-code its published code, step by step: 15 sweeps without guard or
early stop, the stream from its anchors in the first and from circuits and all other blocks in the others, then heads,
then units.  They differ from it where canonical form does.  The key bias, which softmax cannot see, is dropped, and the
value bias folded, so that circuits have a row for the query bias only; offsets of norms are folded into biases where
there are any; a LayerNorm stays one, and the rotation fixes the all-ones vector.  Maps inside heads, which the paper
does without, are solved at the end, so that the factor path can be taken.  Rotary positions, grouped heads and free
scales of units are not in the paper; they are treated as everywhere here.  permutation is its ablation: order alone."""


@dataclass(frozen=True)
class PaperLearning(Options):
    """Learning as the first and the third paper compare it.

    law: where λ, the share of B, is drawn: "half" 0.5, "full" uniform on [0, 1], "normal" N(0.5, 0.1) cut off at 0 and
        1, "near-a" uniform on [0.2, 0.5]; in place of `law` of the method.
    permutations: "frozen", "straight-through" (first paper, algorithm 1) or "soft" (appendix C.2: doubly stochastic, so
        the end point is not B any more), of the groups heads and units where these learn.
    residual: "orthogonal" (rotations) or "permutation", for the stream, where permutations learn: the first paper's
        comparison with order alone.
    assign_every: straight-through assignments are solved again every so many steps, beside the run.
    sinkhorn, noise: iterations, and the coefficient ε of the start, of soft permutations.
    rotation: the chart of rotations.
    scale: one positive number on what writes the residual stream.
    """

    law: Literal["half", "full", "normal", "near-a"] | None = None
    permutations: Literal["frozen", "straight-through", "soft"] = "frozen"
    residual: Literal["orthogonal", "permutation"] = "orthogonal"
    assign_every: Count = 10
    sinkhorn: Count = 20
    noise: Size = 0.01
    rotation: Literal["cayley", "exponential", "polar"] = "cayley"
    scale: bool = False
