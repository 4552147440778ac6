"""First paper, 3.8 and 3.1: models of unequal width; unequal numbers of heads and units, filled in three ways."""

from __future__ import annotations

from typing import Any

from onebasin.reproduce.p1_table2 import GPT2, LEARNED, PYTHON, SHORT, TEXT, TINY_GPT2
from onebasin.reproduce.plan import NAIVE, Course, Entry, Member, Plan, Published, Row, Training

WIDTHS = {"tiny": (64, (32,)), "small": (512, (256, 128, 64, 32)), "paper": (512, (256, 128, 64, 32))}
COURSES = {
    "tiny": Course(150, 32, 4e-3, 0.01),
    "small": Course(1500, 32, 5e-4, 0.01, patience=5),
    "paper": Course(3700, 32, 3e-4, 0.01, patience=5),
}
FILLS = ("zero", "split", "shares")


def fewer(model: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Models with half of the heads, as wide as before, and half of the units."""
    heads, width, inner = model["heads"], model["width"], model["inner"]
    return {
        "half the units": {**model, "inner": inner // 2},
        "half the heads": {**model, "heads": heads // 2, "width": width // 2},
    }


def learned(budget: str, **more: Any) -> dict[str, Any]:
    """The paper's code looks nearer to the small model, which therefore comes first."""
    how = {**LEARNED[budget], **SHORT[budget], "start": "weight", "paper": {"law": "near-a"}}
    return {"method": "learned", "learned": how, **more}


def plan(budget: str, seeds: int) -> Plan:
    """One large model for every seed, and smaller ones from other seeds."""
    group, data = (PYTHON, "python") if budget == "tiny" else (TEXT, "tiny-shakespeare")
    wide, widths = WIDTHS[budget]
    base: dict[str, Any] = {**(TINY_GPT2 if budget == "tiny" else GPT2), "width": wide}
    relu = {**base, "width": base["heads"] * 16 if budget == "tiny" else 256, "activation": "relu"}
    few: dict[str, Any] = {"train_samples": 500, **({"samples": 64, "points": 5} if budget == "tiny" else {})}
    trainings: list[Training] = []
    rows: list[Row] = []

    def trained(name: str, model: dict[str, Any], first: int) -> list[str]:
        made = tuple(Member(f"{name}-{first + seed}", first + seed) for seed in range(seeds))
        trainings.append(Training(model, data, COURSES[budget], made))
        return [member.name for member in made]

    large = trained(f"wide-{wide}", base, 0)
    for i, width in enumerate(widths, 1):
        small = trained(f"wide-{width}", {**base, "width": width}, 100 * i)
        ways = {"vanilla": NAIVE, "weight": {"method": "weight"}, "learned": learned(budget)}
        rows += [Row(f"{group}, {wide} and {width} wide", label, pair, data, way, **few)
                 for label, way in ways.items() for pair in zip(small, large, strict=True)]  # fmt: skip
    whole = trained("relu", relu, 50)
    for i, (what, model) in enumerate(fewer(relu).items(), 1):
        small = trained(f"relu-{what.replace(' ', '-')}", model, 50 + 100 * i)
        ways = {fill: {"method": "weight", "weight": {"extra": fill}} for fill in FILLS}
        ways |= {f"{fill}, learned": learned(budget, weight={"extra": fill}) for fill in FILLS}
        rows += [Row(f"{group}, ReLU, {what}", label, pair, data, way, ("factor",), **few)
                 for label, way in ways.items() for pair in zip(small, whole, strict=True)]  # fmt: skip
    return Plan(tuple(trainings), tuple(rows))


WHERE = "arXiv 2506.22712, the figure of models of unequal width, and the semi-permutations of its section 3"
ENTRY = Entry(
    "p1-unequal",
    "First paper: models of unequal width, and unequal numbers of heads and units",
    plan,
    {
        **{(f"{TEXT}, 512 and {width} wide", "learned"): Published("near zero, a figure", WHERE)
           for width in WIDTHS["paper"][1]},
        **{(f"{TEXT}, ReLU, {what}", "shares"): Published("defined, no numbers known to us", WHERE)
           for what in ("half the units", "half the heads")},
    },
    "The paper widens by a random isometry, ours by zeros in the stream. Models with half the heads are half as wide, "
    "for the width of a head stays. `zero`, `split` and `shares` are what the smaller model has for the units and "
    "heads it lacks: nothing, even copies, or copies with the shares that suit best.",
)  # fmt: skip
