"""How long an entry takes on one H200, foretold from counts; free of torch.

A guess within a factor of two, from what was measured there: steps of training and of learning
(`benchmarks/results/step_cost.json`, `learned.json`).  The files of a run say what it took.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onebasin.reproduce.plan import Plan, Row, Training

AT_ONCE = 8  # rows measured side by side on a GPU
SPEED = 5e13  # operations a second that training of small models side by side comes to
LAUNCH, COMPILING = 0.015, 60.0  # seconds: a step, however small; before the first one
LEARNING, CIRCUITS, ASSIGNING = 0.12, 1.2, 0.2  # seconds of a step of learning beside seven others; factors; a step
MATCHING, POINT = 15.0, 1.0  # seconds: a match, a point of a path


def minutes(plan: Plan) -> float:
    """Of the whole entry, trained from nothing, with rows side by side."""
    return (sum(map(training_seconds, plan.trainings)) + sum(map(row_seconds, plan.rows)) / AT_ONCE) / 60


def parameters(model: Mapping[str, Any]) -> int:
    """Weights that are multiplied by."""
    width, inner, layers = (int(model[size]) for size in ("width", "inner", "layers"))
    layer = 4 * width**2 + (3 if model["kind"] == "llama" else 2) * width * inner
    return layers * layer + width * int(model.get("vocabulary", 256 if "length" in model else 0))


def training_seconds(training: Training) -> float:
    """Six operations for every weight, token and model; the attention of small models adds little."""
    model, course = training.model, training.course
    patches = (int(model.get("image", 32)) // int(model.get("patch", 4))) ** 2
    tokens = course.batch * int(model.get("length", patches + 1))
    operations = 6 * parameters(model) * tokens * len(training.members)
    return COMPILING + course.steps * max(LAUNCH, operations / SPEED)


def row_seconds(row: Row) -> float:
    """Matching, learning, and the points of all paths."""
    points = row.points if len(row.models) == 2 else row.points * (row.points + 1) / 2
    measuring = POINT * points * len(row.paths)
    section = row.method.get("learned") if row.method.get("method") == "learned" else None
    if section is None:
        return measuring + (MATCHING if row.method else 0)
    step = LEARNING * (CIRCUITS if section.get("path") == "circuit" else 1) * len(row.models) / 2
    paper = section.get("paper", {})
    if paper.get("permutations") == "straight-through":
        step += ASSIGNING / paper.get("assign_every", 10)
    return measuring + MATCHING + int(section["steps"]) * step
