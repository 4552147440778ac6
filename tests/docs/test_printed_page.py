"""docs/printed.md: what verbs print, made from figures that nobody measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from helpers.made_up import ALIGNED, DEMO, HIGH, LOW, MERGED, SCORES, SURFACE, WRITTEN
from helpers.pages import DOCS, check_page
from onebasin.cli import demo, inspect, reproduce, results, verify
from onebasin.reproduce.plan import Entry, Plan, Published, Row
from onebasin.reproduce.tables import report_of, table_of
from onebasin.verification.verify import Verification

INTRODUCTION = """# What verbs print

Every kind of result as it stands on the terminal, with figures that nobody measured.
"""
PLAN = {
    "verb": "merge", "models": ["x", "y"], "class": "LlamaForCausalLM", "device": "cuda", "method": "auto",
    "because": "there is a task with labels", "task": {"name": "text:a.txt", "samples": 1200}, "out": "out",
    "notes": ["y has 3 tokens more"], "heal": {"steps": 1500, "batch": 8, "trainings": 4}, "gauge": "the reference's",
    "memory": 2_340_000_000, "gpu_memory": 999, "writes": {"": 12_000, "merged": 1_000_000},
    "seconds": {"reading": 0.04, "matching": 61.0, "learning": 90_000.0, "writing": 9.7},
}  # fmt: skip
SMALLER_PLAN = {
    "verb": "barrier", "models": ["x", "y", "z"], "class": "C", "device": "cpu", "path": "factor", "points": 11,
    "task": None, "notes": [],
}  # fmt: skip
WORKED = {
    **PLAN, "heal": {**PLAN["heal"], "trainings": 1}, "gpu_memory": None, "task": None, "because": "",
    "seconds": {"a": 0.4, "b": 59.6, "c": 3599.0, "d": 86_399.0}, "writes": {"": 5_200_000_000_000}, "notes": [],
}  # fmt: skip
MANY = {
    **{key: MERGED[key] for key in ("written", "learning")}, "gauge": "canonical, all models: a gain is near zero",
    "universe": {"objective": [3.14159, 2.71828, 2.5], "alignments_made": 3}, "reference": ALIGNED,
    "aligned": [{"model": name, **ALIGNED} for name in ("y", "z")],
}  # fmt: skip
SURE = {**ALIGNED, "gauge": "the reference's", "written": {".": WRITTEN["x"]}, "why": "learning leaves the lowest path"}
TASKS = {**HIGH, "tasks": {"one": HIGH, "other": LOW}}
SPACES = [
    {"name": name, "size": size, "family": family, "fibres": fibres, "dimension": dimension,
     "because": [{"operation": what} for what in because]}
    for name, size, family, fibres, dimension, because in (
        ("residual", 64, "signed permutation", None, 0, ("RMSNorm with gain",)),
        *((f"layers.{i}.ffn", 1200, "permutation", None, 0, ("gelu", "clip")) for i in range(3)),
        *((f"layers.{i}.ov", 16, "invertible", 4, 1024, ()) for i in range(3)),
    )
]  # fmt: skip
MODEL = {
    "architecture": "GPT2LMHeadModel", "model": "models/a", "parameters": 1_234_567, "bytes": 2_469_134,
    "dtypes": {"float32": 3, "bfloat16": 9}, "spaces": SPACES, "dimension": 3072, "tied": "wte.weight",
    "kept_gains": {"ln_f": "the head is tied", "layers.0.ln": "a gain is near zero", "layers.1.ln": "the head is tied"},
    "memory": {"verify": 1e6, "align": 2e9, "learn": 3e12},
    "seconds": {"align": {"reading": 0.5, "matching": 1000.0}, "step": 0.05},
}  # fmt: skip
OBSTACLE = {"what": "the vocabulary", "a": 11, "b": 12, "blocks": True, "next_step": "use one tokenizer"}
HEADS = {
    "weakest": {"weakest": 0.0123, "heads": "layers.0"}, "closest": {"closest": 1e-9, "heads": "layers.1"},
}  # fmt: skip
COMPARED = {
    "verdict": "between", "cosine": 0.4321, "equal_depth": True, "note": "quick match of 3 of 9 layers",
    "layers": [{"a": f"layers.{i}", "b": f"layers.{i + 1}", "stored": value, "matched": matched, "tensors": ["q", "k"]}
               for i, (value, matched) in enumerate([(0.987, 0.99), (0.1, None), (-0.02, 0.026)])],
    "outside": {"embeddings": 0.25, "head": -0.125}, "heads": {"a": HEADS, "b": {**HEADS, "closest": None}, "c": None},
}  # fmt: skip
PAIR = {"a": MODEL, "b": {**MODEL, "tied": None, "kept_gains": {}}, "weights": COMPARED,
        "obstacles": [OBSTACLE, {**OBSTACLE, "blocks": False, "what": "the length"}], "alignable": False}  # fmt: skip
UNLIKE = {"obstacles": [], "weights": {"verdict": "not comparable", "layers": [], "outside": {}, "note": None}}


def verified(drift: float) -> Verification:
    return Verification(
        {"float64": drift, "float32": 2e-6}, {"float64": 1e-15, "float32": 1e-6}, {"residual": drift, "ffn": 1e-15},
        {"residual": 8.125, "ffn": 3.0}, 12.5, (),
    )  # fmt: skip


def reproduced() -> dict[str, Any]:
    """Two pairs, one row of which is not measured, and a way that is not measured at all."""

    def found(height: float, way: str) -> dict[str, Any]:
        path = {
            "barrier": height, "ends": [1.0, 1.2], "midpoint": 1.1 + height, "shares": [0.0, 0.5, 1.0],
            "losses": [1.0, 1.1 + height, 1.2], "metrics": {"accuracy": {"ends": 0.9, "middle": 0.9 - height / 9}},
        }  # fmt: skip
        more = (
            {"learning": {"barrier": height / 2}, "turned": {"residual": {"median": height}}}
            if way == "learned"
            else {}
        )
        return {
            "paths": dict.fromkeys(("circuit", "factor"), path),
            "seconds": 3.0,
            "weakest": 0.5,
            "learning": {},
            **more,
        }

    heights = {"vanilla": 2.0, "weight": 0.5, "learned @ 0.01": 0.125, "missing": None}
    rows = [Row("G", way, pair, "data", {}) for way in heights for pair in (("a", "b"), ("c", "d"))]
    published = {("G", "learned"): Published("0.00 ± 0.01", "Table 2"), ("G", "weight"): Published("low", "p. 3", True)}
    entry = Entry("made-up", "A made-up table", lambda budget, seeds: Plan((), tuple(rows)), published, "All of it.")
    results = {row.key: found(heights[row.label] + 0.1 * i, row.label.partition(" ")[0])
               for i, row in enumerate(rows[:5])}  # fmt: skip
    return report_of(entry, "small", entry.plan("small", 2), results, {rows[5].key: "it diverged"}, {}, "a GPU")


PRINTED: Mapping[str, Callable[[], None]] = {
    "inspect": lambda: inspect._print_model(MODEL),
    "inspect, two models": lambda: inspect._print_pair(PAIR),
    "inspect, unlike models": lambda: inspect._print_pair(UNLIKE),
    "verify": lambda: verify._print(verified(1.5e-14)),
    "verify, a broken promise": lambda: verify._print(verified(0.5)),
    "merge --dry-run": lambda: results.print_plan(PLAN),
    "merge --dry-run, small": lambda: results.print_plan(WORKED),
    "barrier --dry-run": lambda: results.print_plan(SMALLER_PLAN),
    "align": lambda: results.print_aligned(SURE),
    "align, several": lambda: results.print_aligned(MANY),
    "merge": lambda: results.print_aligned({**MERGED, "scores": SCORES}),
    "barrier": lambda: results.print_measured(LOW),
    "barrier, several tasks": lambda: results.print_measured(TASKS),
    "barrier, several models": lambda: results.print_measured(SURFACE),
    "demo": lambda: demo._print({**DEMO, "scores": SCORES}, Path("demo")),
    "reproduce": lambda: reproduce._print(reproduced(), Path("out")),
    "reproduce, the file OUT/NAME.md": lambda: print(table_of(reproduced())),  # noqa: T201
}


@pytest.mark.page
def test_what_is_printed_is_on_the_page(capsys):
    parts = [INTRODUCTION]
    for name, show in PRINTED.items():
        capsys.readouterr()
        show()
        lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
        parts.append("\n".join([f"## {name}", "", "```", *lines, "```", ""]))
    check_page(DOCS / "printed.md", "\n".join(parts))
