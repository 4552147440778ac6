"""What verbs leave behind, as plain data: figures that nobody measured, of every kind that is shown."""

from __future__ import annotations

from math import cos, pi, sin
from typing import Any

TASK = {"name": "made-up", "split": "test"}
SHARES = [0.0, 0.25, 0.5, 0.75, 1.0]


def point(loss: float, accuracy: float = 0.5, error: float = 0.01) -> dict[str, Any]:
    metrics = {"accuracy": accuracy}
    return {
        "loss": loss,
        "standard_error": error,
        "samples": 1200,
        "metrics": metrics,
        "metric_errors": {"accuracy": 0.02},
    }


def curve(*losses: float, error: float = 0.02) -> dict[str, Any]:
    points = [point(loss, 0.9 - 0.1 * loss, error) for loss in losses]
    rises = [x - (1 - t) * losses[0] - t * losses[-1] for x, t in zip(losses, SHARES, strict=True)]
    at = max(range(len(rises)), key=rises.__getitem__)
    return {
        "a": "x", "b": "y", "path": "factor", "task": TASK, "shares": SHARES, "points": points,
        "ends": {"a": points[0], "b": points[-1]},
        "barrier": {"loss": rises[at], "standard_error": error if rises[at] else 0.0, "share": SHARES[at]},
    }  # fmt: skip


HIGH, LOW, FLAT = curve(1.2, 2.1, 4, 2.5, 1), curve(1, 1.1, 1.25, 1.1, 1.3), curve(1, 1, 1, 1, 1)
SCORES = {
    "task": TASK, "held": "no model was trained on them", "missing": {"ensemble": "the models read different tokens"},
    "rows": [{"name": name, **point(1 + i / 7, 0.7 - i / 30)} for i, name in enumerate(("x", "y", "merged"))],
}  # fmt: skip
WRITTEN = {"x": {"dtype": "bfloat16", "drift": 0.031, "largest_output": 12.5}}
ALIGNED = {
    "output_drift": {"float64": 3e-14, "float32": 2e-6}, "rounding_alone": {"float64": 1e-14, "float32": 1e-6},
    "largest_output": 12.5, "gauge": "the reference's", "distance_before": 31.4159, "distance_after": 2.71828,
    "orthogonality_error": 4.2e-15, "sweeps": 7, "converged": False,
    "layers": {f"layers.{i}": [0.02 * i - 0.05, 0.9 - 0.1 * i] for i in range(4)},
    "heads": {"layers.0.heads": [2, 0, 1], "layers.1.heads": list(range(60))},
    "head_scores": {"layers.0.heads": [[0.1, 0.2, 0.9], [0.8, -0.1, 0.3], [0.0, 0.7, 0.25]]},
    "angles": {"residual": [i * i % 11 for i in range(18)]},
}  # fmt: skip
HISTORY = [
    {"step": 50 * i, "midpoint": 1 + 1 / (i + 1), "train_loss": 1.2 + cos(i) / 9 if i else None} for i in range(8)
]
MERGED = {
    "verb": "merge", "method": "learned", "shares": [0.25, 0.75], "verdict": "better than both", "written": WRITTEN,
    "learning": {"history": HISTORY, "best_step": 300, "midpoint": 1.125},
    "healing": {"options": {"steps": 130, "batch": 8}, "every": 50, "task": "made-up",
                "losses": {"merged": [2.0, 1.5, 1.25], "x": [1.5, 1.4, 1.375]}},
    "path": {**LOW, "best": 0.75}, **ALIGNED,
}  # fmt: skip
METHODS = [
    {"method": name, "barrier": 2.8 / (i + 1), "midpoint": 0.5 + 0.1 * i, "ends": 0.75, "seconds": 3.25 * i}
    for i, name in enumerate(("plain average", "weight", "learned"))
]
DEMO = {
    "metric": "accuracy", "rows": METHODS, "conclusion": "Learning takes the barrier away.", "verdict": "better",
    "data": {"train": {"data": "made-up:train"}, "test": {"data": "made-up:test", "samples": 1200}},
    "seconds": {"all": 61.7, "training": 40.2}, "models": "small models", "steps": 1500, "command": "onebasin demo",
}  # fmt: skip
CORNERS = [point(1 + 0.2 * sin(pi * i / 5), 0.6 + i / 30) for i in range(4)]
SIDES = [{"between": [i, j], **point(1.5 + i / 9 + j / 7)} for i in range(4) for j in range(i)]
PLACES = [[1 / len(at) if i in at else 0.0 for i in range(4)]
          for at in ((0,), (1,), (2,), (3,), *(side["between"] for side in SIDES), range(4))]  # fmt: skip
MIDDLE = point(2.5)
SURFACE = {
    "vertices": CORNERS, "midpoints": SIDES, "centre": MIDDLE, "points": [*CORNERS, *SIDES, MIDDLE],
    "models": list("wxyz"), "shares": PLACES,
    "barrier": {"loss": 1.25, "standard_error": 0.03, "shares": [0.25] * 4}, "path": "factor", "task": TASK,
}  # fmt: skip
AS_THEY_ARE = {"as they are": HIGH, "aligned": LOW, "equal": FLAT}
