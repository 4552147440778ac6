"""First paper, Figure 7: the barrier after every sweep of weight matching, by rotations and by permutations."""

from __future__ import annotations

from typing import Any

from onebasin.reproduce.p1_table2 import CIFAR, PYTHON, SHAPES, TEXT, TRAININGS
from onebasin.reproduce.plan import Entry, Plan, Published, Row, Training, members, pairs, slug

SWEEPS = (1, 2, 3, 5, 10, 15)
ORDER = {"residual": "permutation", "units": "permutation"}


def plan(budget: str, seeds: int) -> Plan:
    """The models are those of p1-table2: in one folder they are trained once."""
    trainings, rows = [], []
    few: dict[str, Any] = {"samples": 200, "points": 5} if budget == "tiny" else {"points": 5}
    for group in (SHAPES, PYTHON) if budget == "tiny" else (CIFAR, TEXT):
        data, model, course = TRAININGS[budget][group]
        trainings.append(Training(model, data, course, members(slug(group), seeds)))
        for family, options in (("orthogonal", {}), ("permutation", ORDER)):
            for sweeps in SWEEPS:
                way = {"method": "weight", "weight": {**options, "sweeps": sweeps, "tol": 0.0}}
                rows += [
                    Row(group, f"{family}, {sweeps} sweeps", pair, data, way, ("circuit",), train_samples=100, **few)
                    for pair in pairs(slug(group), seeds)
                ]
    return Plan(tuple(trainings), tuple(rows))


WHERE = "arXiv 2506.22712, Figure 7"
SAID = {
    "orthogonal, 5 sweeps": "converged after about 5", "permutation, 15 sweeps": "no better by further sweeps",
}  # fmt: skip
ENTRY = Entry(
    "p1-sweeps",
    "First paper, Figure 7: barrier per sweep of weight matching",
    plan,
    {(group, label): Published(said, WHERE) for group in (CIFAR, TEXT) for label, said in SAID.items()},
    "Our matching refuses steps that raise the distance, and counts blocks otherwise than the paper.",
)
