"""Second paper, stage one: the order of heads that matching finds, among all 24."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

from onebasin.reproduce.p2_protocols import KINDS, MATCHED
from onebasin.reproduce.p2_protocols import plan as protocols
from onebasin.reproduce.plan import Entry, Plan, Published, Row, Table

PROTOCOL = "first attention"
FOUND, HEADS = "as found", 4


def plan(budget: str, seeds: int) -> Plan:
    """The models are those of p2-protocols whose first attention was drawn again."""
    whole, rows = protocols(budget, seeds), []
    for name in KINDS:
        group = f"{name}, {PROTOCOL}"
        one = next(row for row in whole.rows if row.group == group)
        models = sorted({model for row in whole.rows if row.group == group for model in row.models})
        few: dict[str, Any] = {"samples": one.samples, "train_samples": one.train_samples, "points": one.points}
        for order in permutations(range(HEADS)):
            method = {"method": "weight", "weight": MATCHED[PROTOCOL], "heads": list(order)}
            label = FOUND if order == tuple(range(HEADS)) else " ".join(map(str, order))
            rows += [Row(group, label, pair, one.data, method, ("factor",), **few) for pair in combinations(models, 2)]
    return Plan(whole.trainings, tuple(rows))


def ranked(table: Table) -> Table:
    """Of every group the order that was found, its rank, and the best, middle and worst of the others."""
    found = []
    for group in dict.fromkeys(line["group"] for line in table):
        lines = [line for line in table if line["group"] == group]
        if any(not line.get("paths") for line in lines):
            found.append(next(line for line in lines if line["label"] == FOUND))
            continue
        lines.sort(key=lambda line: line["paths"]["factor"]["barrier"]["mean"])
        rank = next(i for i, line in enumerate(lines, 1) if line["label"] == FOUND)
        others = [line for line in lines if line["label"] != FOUND]
        places = {f"{FOUND}: {rank} of {len(lines)}": lines[rank - 1], "best of the others": others[0],
                  "middle of the others": others[len(others) // 2], "worst of the others": others[-1]}  # fmt: skip
        found += [{**line, "label": label} for label, line in places.items()]
    return found


WHERE = "arXiv 2606.17830, ablation of stage one, by a note on the paper"
ENTRY = Entry(
    "p2-orders",
    "Second paper: all 24 orders of 4 heads",
    plan,
    {(f"{name}, {PROTOCOL}", FOUND): Published("near the best", WHERE, second_hand=True) for name in KINDS},
    "Each order of the first layer's heads with its own maps inside them; of more than 4 heads the first four change "
    "places. Orders are sorted by their mean barrier.",
    digest=ranked,
)
