"""Third paper: maps for both models (dual) against maps for one, at equal budget, each at the rate that suits it."""

from __future__ import annotations

from typing import Any

from onebasin.reproduce.plan import Course, Entry, Plan, Published, Row, Table, Training, members, pairs, slug

RATES = (3e-3, 1e-2, 3e-2)
MIDDLE = 1e-2
GPT2: dict[str, Any] = {"kind": "gpt2", "width": 192, "layers": 4, "heads": 6, "inner": 768, "length": 256}
LLAMA: dict[str, Any] = {
    "kind": "llama", "width": 192, "layers": 4, "heads": 6, "groups": 2, "inner": 512, "length": 256,
}  # fmt: skip
SIZES: dict[str, dict[str, Any]] = {
    "GPT-2, 192 wide": {**GPT2, "dropout": 0.1}, "Llama, 192 wide": LLAMA,
    "GPT-2, 768 wide": {**GPT2, "width": 768, "heads": 12, "inner": 3072, "dropout": 0.1},
    "Llama, 768 wide": {**LLAMA, "width": 768, "heads": 12, "groups": 4, "inner": 2048},
}  # fmt: skip
MODELS: dict[str, dict[str, dict[str, Any]]] = {
    "tiny": {"GPT-2, 64 wide": {"kind": "gpt2", "width": 64, "layers": 2, "heads": 4, "inner": 128, "length": 64}},
    "small": SIZES,
    "paper": SIZES,
}
COURSES = {
    "tiny": Course(150, 32, 3e-3, 0.01),
    "small": Course(3000, 64, 1e-3, 0.1),
    "paper": Course(5000, 64, 1e-3, 0.1),
}
LEARNED: dict[str, dict[str, Any]] = {
    "tiny": {"steps": 60, "batch": 16, "eval_every": 30},
    "small": {"steps": 300, "batch": 32, "eval_every": 100, "compile": "off"},
    "paper": {"steps": 3000, "batch": 64, "eval_every": 250},
}
GATED = "one-sided, scales of units"  # which only gated units and ReLU have
WAYS: dict[str, tuple[tuple[float, ...], dict[str, Any]]] = {  # label -> the rates it is tried at, options
    "one-sided": (RATES, {}),
    "dual": (RATES, {"two_sided": True}),
    "one-sided, exponential": ((MIDDLE,), {"paper": {"rotation": "exponential"}}),
    "one-sided, polar": ((MIDDLE,), {"paper": {"rotation": "polar"}}),
    "one-sided, scale of the stream": ((MIDDLE,), {"paper": {"scale": True}}),
    GATED: ((MIDDLE,), {"learn": ["residual", "qk", "ov", "units"]}),
}


def plan(budget: str, seeds: int) -> Plan:
    """The rate is chosen by the barrier on samples held back of the training data, never on the test data."""
    trainings, rows = [], []
    data = "python" if budget == "tiny" else "wikitext2"
    few = {"samples": 64 if budget == "tiny" else 500, "train_samples": 64 if budget == "tiny" else 500}
    for group, model in MODELS[budget].items():
        name = slug(group)
        trainings.append(Training(model, data, COURSES[budget], members(name, seeds)))
        rows += [Row(group, "weight", pair, data, {"method": "weight"}, ("factor",), **few)
                 for pair in pairs(name, seeds)]  # fmt: skip
        for label, (rates, options) in WAYS.items():
            if label == GATED and model["kind"] != "llama":
                continue
            for rate in rates:
                learned = {**LEARNED[budget], "lr": rate, "start": "weight", **options}
                method = {"method": "learned", "learned": learned}
                rows += [Row(group, f"{label} @ {rate:g}", pair, data, method, ("factor",), **few)
                         for pair in pairs(name, seeds)]  # fmt: skip
    return Plan(tuple(trainings), tuple(rows))


def best_rates(table: Table) -> Table:
    """Of lines "WAY @ RATE" the one with the lowest barrier on samples held back of the training data, as "WAY"."""
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for line in table:
        way, _, rate = line["label"].partition(" @ ")
        named = {**line, "label": way, "rate": rate or None}
        key, height = (line["group"], way), line.get("validated", {}).get("mean", float("inf"))
        if key not in best or height < best[key].get("validated", {}).get("mean", float("inf")):
            best[key] = named
    return list(best.values())


WHERE = "arXiv 2606.23607, abstract"
SAID = {
    "dual": "near zero for language models of medium size",
    **dict.fromkeys([way for way in WAYS if way != "dual"], "one of its choices, no numbers known to us"),
}
ENTRY = Entry(
    "p3-dual",
    "Third paper: dual against one-sided learned matching",
    plan,
    {(group, way): Published(said, WHERE, second_hand=True)
     for group, model in SIZES.items() for way, said in SAID.items()
     if way != GATED or model["kind"] == "llama"},
    "The paper's pairs, data, steps and rates are not known to us, so only the comparison is: same pairs, same start "
    "(weight matching), same steps; the rate of each way is the one that validated best.",
    digest=best_rates,
)  # fmt: skip
