"""First paper, algorithm 1 as published against ours; where it begins and where it draws λ (its ablations)."""

from __future__ import annotations

from typing import Any

from onebasin.reproduce.p1_table2 import CIFAR, LEARNED, SHAPES, TRAININGS
from onebasin.reproduce.plan import Entry, Plan, Published, Row, Training, members, pairs, slug

PUBLISHED: dict[str, Any] = {  # assignments in every step, a projection for the stream, the text's weight matching
    "path": "circuit", "learn": ["residual", "heads", "units"], "start": "weight",
    "paper": {"permutations": "straight-through", "assign_every": 1, "rotation": "polar"},
}  # fmt: skip
OURS: dict[str, Any] = {"path": "circuit", "start": "weight"}
LAWS = ("half", "full", "normal")
SOFT: dict[str, Any] = {"learn": ["residual", "heads", "units"], "paper": {"permutations": "soft"}}


def ways(budget: str) -> dict[str, dict[str, Any]]:
    """Label -> method; `middle` is the law of both the paper and ours."""
    how = {**LEARNED[budget], "augment": True}
    text = {"weight": {"preset": "p1-paper"}}
    return {
        "as published": {"method": "learned", **text, "learned": {**how, **PUBLISHED}},
        "ours": {"method": "learned", "learned": {**how, **OURS}},
        "ours, from the identity": {"method": "learned", "learned": {**how, **OURS, "start": "identity"}},
        "ours, soft permutations": {"method": "learned", "learned": {**how, **OURS, **SOFT}},
        **{f"ours, λ {law}": {"method": "learned", "learned": {**how, **OURS, "paper": {"law": law}}} for law in LAWS},
    }


def plan(budget: str, seeds: int) -> Plan:
    """The models are those of p1-table2: in one folder they are trained once."""
    group = SHAPES if budget == "tiny" else CIFAR
    data, model, course = TRAININGS[budget][group]
    name, few = slug(group), {"samples": 200, "points": 5} if budget == "tiny" else {}
    rows = [
        Row(group, label, pair, data, way, ("circuit",), **few)
        for label, way in ways(budget).items()
        for pair in pairs(name, seeds)
    ]
    return Plan((Training(model, data, course, members(name, seeds)),), tuple(rows))


WHERE = "arXiv 2506.22712, Table 2 and the ablations of learned matching"
ENTRY = Entry(
    "p1-algorithm1",
    "First paper, algorithm 1: as published and ours, starts and laws of λ",
    plan,
    {
        (CIFAR, "as published"): Published("0.00", WHERE),
        (CIFAR, "ours"): Published("angles near zero", f"{WHERE}; section 6"),
        (CIFAR, "ours, soft permutations"): Published("lower at the middle than straight-through", WHERE),
        (CIFAR, "ours, from the identity"): Published("stays positive after 15 epochs", WHERE),
        (CIFAR, "ours, λ half"): Published("good at the centre, bad around it", WHERE),
        (CIFAR, "ours, λ full"): Published("leaves a barrier", WHERE),
        (CIFAR, "ours, λ normal"): Published("leaves a barrier", WHERE),
    },
    "The published projection by SVD has no gradient at the identity, so the paper adds noise there; ours is the polar "
    "factor of I + Z, without noise. `turned` says how far learning turns the stream from where matching put it: the "
    "middle of the angles of all planes. With soft permutations the end point is another model.",
)
