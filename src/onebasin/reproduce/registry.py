"""All tables and figures that can be reproduced, by name."""

from __future__ import annotations

from onebasin.errors import OnebasinError
from onebasin.reproduce import (
    p1_algorithm1,
    p1_simplex,
    p1_sweeps,
    p1_table2,
    p1_unequal,
    p2_orders,
    p2_protocols,
    p2_stages,
    p3_dual,
)
from onebasin.reproduce.plan import BUDGETS, Entry

ENTRIES: dict[str, Entry] = {
    module.ENTRY.name: module.ENTRY
    for module in (
        p1_table2, p1_algorithm1, p1_sweeps, p1_simplex, p1_unequal, p2_protocols, p2_stages, p2_orders, p3_dual,
    )
}  # fmt: skip


def entry_of(name: str, budget: str) -> Entry:
    """The entry of that name, with a budget that there is."""
    for what, given, known in (("table or figure", name, ENTRIES), ("budget", budget, BUDGETS)):
        if given not in known:
            step = "onebasin reproduce --list shows all of them"
            raise OnebasinError(f"There is no such {what}", expected=", ".join(known), found=given, next_step=step)
    return ENTRIES[name]
