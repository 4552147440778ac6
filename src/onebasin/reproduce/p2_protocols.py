"""Second paper: part of a trained model is drawn again and trained anew, three times: are the copies connected.

Learned positions (APE) against rotary ones (RoPE), everything else equal.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

from onebasin.reproduce.plan import NAIVE, Course, Entry, Member, Plan, Published, Row, Training

PROTOCOLS = ("first attention", "all attention", "first layer", "everything")
KINDS = {"GPT-2, APE": "gpt2", "GPT-2, RoPE": "neox", "BERT, APE": "bert", "BERT, RoPE": "roformer"}
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"width": 64, "layers": 2, "heads": 4, "inner": 128, "length": 64},
    "small": {"width": 192, "layers": 4, "heads": 4, "inner": 768, "length": 256},
    "paper": {"width": 768, "layers": 12, "heads": 12, "inner": 3072, "length": 256},
}
BASES = {
    "tiny": Course(150, 32, 3e-3, 0.01),
    "small": Course(2500, 64, 1e-3, 0.1),
    "paper": Course(60_000, 24, 2.5e-4, 0.01),
}
COPIES = {
    "tiny": Course(60, 32, 3e-3, 0.01),
    "small": Course(1500, 64, 1e-3, 0.1),
    "paper": Course(60_000, 24, 2.5e-4, 0.01),
}
DATA = {"tiny": "python", "small": "wikitext2", "paper": "wikitext2"}
MATCHED: dict[str, dict[str, Any]] = {  # only what was drawn again has moved
    "first attention": {"spaces": ["attention"]},
    "all attention": {"spaces": ["attention"]},
    "first layer": {"spaces": ["attention", "units"]},
    "everything": {},
}


def plan(budget: str, seeds: int) -> Plan:
    """One base for each kind of model; `seeds` copies of each protocol, all pairs of them."""
    trainings, rows = [], []
    few = {"samples": 64 if budget == "tiny" else 500, "train_samples": 64, "points": 5 if budget == "tiny" else 25}
    for name, kind in KINDS.items():
        model, base = {"kind": kind, **SIZES[budget]}, f"{kind}-base"
        data = DATA[budget] + ("-gaps" if name.startswith("BERT") else "")
        trainings.append(Training(model, data, BASES[budget], (Member(base, 0),)))
        copies = {
            protocol: [Member(f"{kind}-{protocol.replace(' ', '-')}-{seed}", seed, protocol)
                       for seed in range(1, seeds + 1)]
            for protocol in PROTOCOLS
        }  # fmt: skip
        together = tuple(member for each in copies.values() for member in each)
        trainings.append(Training(model, data, COPIES[budget], together, base))
        for protocol in PROTOCOLS:
            for label, method in (("naive", NAIVE), ("matched", {"method": "weight", "weight": MATCHED[protocol]})):
                for a, b in combinations(copies[protocol], 2):
                    pair = (a.name, b.name)
                    rows.append(Row(f"{name}, {protocol}", label, pair, data, method, ("factor",), **few))
    return Plan(tuple(trainings), tuple(rows))


WHERE = "arXiv 2606.17830, figures, by a note on the paper"
SAID = {
    "first attention": "connected everywhere", "all attention": "mostly connected",
    "first layer": "connected, but for ImageNet", "everything": "small data yes, large data no",
}  # fmt: skip

ENTRY = Entry(
    "p2-protocols",
    "Second paper: four protocols, learned against rotary positions",
    plan,
    {
        (f"{name}, {protocol}", "matched"): Published(said, WHERE, second_hand=True)
        for name in KINDS
        for protocol, said in SAID.items()
    },
    "APE and RoPE differ in their positions alone. The GPT-2 with rotary positions is a GPT-NeoX, one block after the "
    "other, all of a head turned; the BERT, which fills gaps in bytes, a RoFormer. All weights train after the part is "
    "drawn again; the paper does not say in what we could read. `matched` is weight matching of what was drawn again: "
    "attention; attention and units; for `everything` the stream as well.",
)
