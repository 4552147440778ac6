"""First paper, Table 2: the loss barrier on CIFAR-10 and Tiny Shakespeare by five ways of aligning."""

from __future__ import annotations

from typing import Any

from onebasin.reproduce.plan import NAIVE, Course, Entry, Plan, Published, Row, Training, members, pairs, slug

CIFAR, CIFAR_ADAMW, TEXT = "CIFAR-10", "CIFAR-10, AdamW", "Tiny Shakespeare"
SHAPES, PYTHON = "drawn shapes", "Python source"
FACTOR = "learned, factor path"
ORDER: dict[str, Any] = {"residual": "permutation", "units": "permutation"}

VIT = {"kind": "vit", "width": 256, "layers": 6, "heads": 8, "inner": 512}
GPT2 = {
    "kind": "gpt2", "width": 256, "layers": 6, "heads": 4, "inner": 1024, "length": 256, "vocabulary": 50257,
    "dropout": 0.1,
}  # fmt: skip
TINY_VIT = {"kind": "vit", "width": 64, "layers": 2, "heads": 4, "inner": 128, "image": 16, "patch": 4}
TINY_GPT2 = {"kind": "gpt2", "width": 64, "layers": 2, "heads": 4, "inner": 128, "length": 32}

TRAININGS = {
    "tiny": {
        SHAPES: ("shapes", TINY_VIT, Course(200, 32, 2e-3, 1e-3, "l2")),
        PYTHON: ("python", TINY_GPT2, Course(150, 32, 4e-3, 0.01)),
    },
    "small": {
        CIFAR: ("cifar10", VIT, Course(7000, 256, 1e-3, 1e-4, "l2")),
        TEXT: ("tiny-shakespeare", GPT2, Course(1500, 32, 5e-4, 0.01, patience=5)),
        CIFAR_ADAMW: ("cifar10", VIT, Course(7000, 256, 1e-3, 1e-3)),
    },
    "paper": {
        CIFAR: ("cifar10", VIT, Course(150 * 390, 128, 3e-4, 1e-3, "l2")),
        TEXT: ("tiny-shakespeare", GPT2, Course(3700, 32, 3e-4, 0.01, patience=5)),
        CIFAR_ADAMW: ("cifar10", VIT, Course(150 * 390, 128, 3e-4, 1e-3)),
    },
}  # fmt: skip
LEARNED: dict[str, dict[str, Any]] = {  # options of learning, images and text
    "tiny": {"steps": 40, "batch": 32, "lr": 1e-2, "eval_every": 20},
    "small": {"steps": 800, "batch": 128, "lr": 3e-3, "eval_every": 200, "compile": "off"},
    "paper": {"steps": 3000, "batch": 128, "lr": 3e-3, "eval_every": 250},
}
SHORT = {"tiny": {"batch": 16}, "small": {"batch": 32, "steps": 600}, "paper": {"batch": 32}}  # of text


def ways(budget: str, *, images: bool) -> dict[str, dict[str, Any]]:
    """Label -> method, most important first."""
    learned = {**LEARNED[budget], **({"augment": True} if images else SHORT[budget])}
    orders = {"permutations": "straight-through", "residual": "permutation"}
    return {
        "vanilla": NAIVE,
        "weight": {"method": "weight"},
        "learned": {"method": "learned", "learned": {**learned, "start": "weight", "path": "circuit"}},
        "activation": {"method": "activation", "activation": {**ORDER, "inside": "permutation"}},
        "learned, permutations": {
            "method": "learned", "weight": dict(ORDER),
            "learned": {
                **learned, "start": "weight", "path": "circuit", "learn": ["residual", "heads", "units"],
                "paper": orders,
            },
        },
        FACTOR: {"method": "learned", "learned": {**learned, "start": "weight"}},
    }  # fmt: skip


def plan(budget: str, seeds: int) -> Plan:
    """Two models for every pair, so that pairs are independent."""
    trainings, rows = [], []
    for group, (data, model, course) in TRAININGS[budget].items():
        name = slug(group)
        trainings.append(Training(model, data, course, members(name, seeds)))
        few: dict[str, Any] = {"train_samples": None if model["kind"] == "vit" else 500}
        if budget == "tiny":
            few |= {"samples": 200, "points": 5}
        for label, method in ways(budget, images=model["kind"] == "vit").items():
            paths = {"learned": ("circuit",), FACTOR: ("factor",)}.get(label, ("circuit", "factor"))
            rows += [Row(group, label, pair, data, method, paths, **few) for pair in pairs(name, seeds)]
    return Plan(tuple(trainings), tuple(rows))


WHERE = "arXiv 2506.22712, Table 2"
NUMBERS = {
    CIFAR: ("1.69 ± 0.07", "0.36 ± 0.01", "0.00", "1.27 ± 0.13", "0.45 ± 0.02"),
    TEXT: ("2.02 ± 0.12", "0.34 ± 0.01", "0.02 ± 0.00", "1.43 ± 0.16", "0.63 ± 0.17"),
}
LABELS = ("vanilla", "weight", "learned", "activation", "learned, permutations")

ENTRY = Entry(
    "p1-table2",
    "First paper, Table 2: loss barriers",
    plan,
    {
        (group, label): Published(value, WHERE)
        for group, values in NUMBERS.items()
        for label, value in zip(LABELS, values, strict=True)
    },
    "The paper's numbers are for the circuit path. Its end points: CIFAR-10 loss 0.57 ± 0.01, accuracy 83.81 ± 0.44 %; "
    "Tiny Shakespeare loss 5.28. Ours train for fewer steps with the budget `small`. `activation` fits permutations to "
    "correlations of the stream and the units; heads follow from weights. `learned` rotates the stream and starts from "
    "our weight matching; `learned, permutations` learns the order of stream, heads and units, straight-through.",
)
