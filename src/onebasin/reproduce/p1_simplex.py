"""First paper, 3.7: three models on the simplex, brought together by matching, then by learning among all three."""

from __future__ import annotations

from typing import Any

from onebasin.reproduce.p1_table2 import CIFAR, LEARNED, SHAPES, TRAININGS
from onebasin.reproduce.plan import NAIVE, Entry, Member, Plan, Published, Row, Training, members, slug

SIDE = {"tiny": 3, "small": 7, "paper": 11}  # points on a side of the triangle


def ways(budget: str) -> dict[str, dict[str, Any]]:
    """Label -> method; the paper's refinement draws the three shares from a Dirichlet law of 0.1."""
    learned = {**LEARNED[budget], "augment": True, "start": "weight", "law": "dirichlet", "alpha": 0.1}
    return {"vanilla": NAIVE, "weight": {"method": "weight"}, "learned": {"method": "learned", "learned": learned}}


def plan(budget: str, seeds: int) -> Plan:
    """Three models for every seed; the first of them are those of p1-table2."""
    group = SHAPES if budget == "tiny" else CIFAR
    data, model, course = TRAININGS[budget][group]
    name, few = slug(group), {"samples": 200} if budget == "tiny" else {}
    known = members(name, seeds)
    more = tuple(Member(f"{name}-{seed}", seed) for seed in range(len(known), 3 * seeds))
    triples = [tuple(f"{name}-{3 * i + j}" for j in range(3)) for i in range(seeds)]
    rows = [
        Row(group, label, triple, data, way, ("factor",), points=SIDE[budget], **few)
        for label, way in ways(budget).items()
        for triple in triples
    ]
    return Plan((Training(model, data, course, known), Training(model, data, course, more)), tuple(rows))


WHERE = "arXiv 2506.22712, the figure of three models on CIFAR-10"
ENTRY = Entry(
    "p1-simplex",
    "First paper: three models on the simplex",
    plan,
    {(CIFAR, "vanilla"): Published("a peak inside, a figure", WHERE),
     (CIFAR, "learned"): Published("flat, a figure", WHERE)},
    "The paper gives no numbers and no number of rounds. The barrier is the largest rise over the plane through the "
    "three losses, on a triangular grid; each of three seeds has three models of its own.",
)  # fmt: skip
