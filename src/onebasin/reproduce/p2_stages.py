"""Second paper, ablations: without the maps inside heads, with rotations, with all of them; distances of heads."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from onebasin.reproduce.p2_protocols import KINDS
from onebasin.reproduce.p2_protocols import plan as protocols
from onebasin.reproduce.plan import NAIVE, Entry, Plan, Published, Row

PROTOCOL = "first layer"
STAGES = {"no maps inside heads": "none", "rotations inside heads": "orthogonal", "all maps inside heads": "invertible"}
METRICS = ("frobenius", "cosine", "normalised", "spectral")


def ways() -> dict[str, dict[str, Any]]:
    """Label -> method."""
    spaces = {"spaces": ["attention", "units"]}
    by_metric = {f"heads by {name}": {**spaces, "paper": {"head_metric": name}} for name in METRICS}
    sections = {**{label: {**spaces, "inside": inside} for label, inside in STAGES.items()}, **by_metric}
    return {"naive": NAIVE, **{label: {"method": "weight", "weight": section} for label, section in sections.items()}}


def plan(budget: str, seeds: int) -> Plan:
    """The models are those of p2-protocols whose first layer was drawn again."""
    whole, rows = protocols(budget, seeds), []
    groups = {row.group: row for row in whole.rows if row.group.endswith(PROTOCOL)}
    for group, one in groups.items():
        names = sorted({name for row in whole.rows if row.group == group for name in row.models})
        few: dict[str, Any] = {"samples": one.samples, "train_samples": one.train_samples, "points": one.points}
        for label, method in ways().items():
            rows += [Row(group, label, pair, one.data, method, ("factor",), **few) for pair in combinations(names, 2)]
    return Plan(whole.trainings, tuple(rows))


WHERE = "arXiv 2606.17830, stage ablation, by a note on the paper"
SAID = {
    "no maps inside heads": "62 to 91 % of naive", "rotations inside heads": "10 to 16 % of naive",
    "all maps inside heads": "7 to 12 % of naive",
    **{f"heads by {name}": "compared, no numbers known to us" for name in METRICS},
}  # fmt: skip
ENTRY = Entry(
    "p2-stages",
    "Second paper: stages of matching, and distances between heads",
    plan,
    {
        (f"{name}, {PROTOCOL}", label): Published(said, WHERE, second_hand=True)
        for name in KINDS
        for label, said in SAID.items()
    },
    "The paper's ablation is on ViT and BERT of 6 layers and 4 heads; ours have 4 layers and 4 heads. Units are "
    "matched in all rows.",
)
