"""An entry so small that it takes a second: a ViT of one layer on a few drawings, two ways, one pair."""

from __future__ import annotations

from onebasin.reproduce.plan import Course, Entry, Plan, Published, Row, Training, members, pairs

VIT = {"kind": "vit", "width": 8, "layers": 1, "heads": 2, "inner": 8, "image": 16, "patch": 8}
GPT2 = {"kind": "gpt2", "width": 8, "layers": 2, "heads": 2, "inner": 8, "length": 8}
NEOX = {**GPT2, "kind": "neox"}
BERT, ROFORMER = ({**GPT2, "kind": kind, "length": 9} for kind in ("bert", "roformer"))
LLAMA = {**GPT2, "kind": "llama", "groups": 1}
GROUP = "drawings"


def plan(budget: str, seeds: int, steps: int = 3) -> Plan:
    data = "cifar10" if budget == "paper" else "shapes"
    training = Training(VIT, data, Course(steps, 8, 1e-2, 1e-3, "l2"), members("small", seeds))
    few = {"points": 3, "samples": 20, "train_samples": 40}
    ways = {"vanilla": {}, "weight": {"method": "weight"}}
    rows = [Row(GROUP, label, pair, data, way, **few) for label, way in ways.items() for pair in pairs("small", seeds)]
    return Plan((training,), tuple(rows))


SMALL = Entry("small", "A small table", plan, {(GROUP, "weight"): Published("0.36 ± 0.01", "nowhere")}, "Nothing does.")
