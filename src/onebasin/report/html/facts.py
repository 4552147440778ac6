"""What lies in an output folder, read back: everything that a page is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onebasin.checkpoint.folder import read_json_object
from onebasin.ensemble.words import join_words
from onebasin.tasks.mixture import MEAN

Data = Mapping[str, Any]


@dataclass(frozen=True)
class Facts:
    """`curves` are the paths that were measured, by name; `certificate` is that of an aligned model.

    `surface` is the loss over the averages of three models or more, `scores` the models beside their averages, and
    `recipe` the text of the recipe.
    """

    verb: str
    names: Sequence[str]
    curves: Mapping[str, Data] = field(default_factory=dict)
    demo: Data | None = None
    certificate: Data | None = None
    surface: Data | None = None
    scores: Data | None = None
    recipe: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()


def read_facts(folder: Path) -> Facts:
    """From demo.json, barrier.json or certificate.json, whichever is there, and recipe.yaml."""
    recipe = folder / "recipe.yaml"
    text = recipe.read_text(encoding="utf-8") if recipe.is_file() else None
    if (folder / "demo.json").is_file():
        demo = read_json_object(folder / "demo.json")
        last = read_json_object(folder / demo["rows"][-1]["method"] / "certificate.json")
        curves = {row["method"]: row["curve"] for row in demo["rows"]}
        return Facts("demo", ["a", "b"], curves, demo, last, scores=demo["scores"], versions=demo["versions"])
    if (folder / "barrier.json").is_file():
        curve = read_json_object(folder / "barrier.json")
        shared = {"recipe": text, "versions": curve["versions"], "warnings": curve["warnings"]}
        if "vertices" in curve:
            return Facts("barrier", curve["models"], surface=curve, **shared)
        return Facts("barrier", [curve["a"], curve["b"]], by_task(curve), **shared)
    done = read_json_object(folder / "certificate.json")
    shared = {"recipe": text, "versions": done["versions"], "warnings": done["warnings"]}
    curves = by_task(done["path"]) if "path" in done else {}
    return Facts(done["verb"], done["models"], curves, certificate=done, scores=done.get("scores"), **shared)


def by_task(curve: Data) -> dict[str, Data]:
    """A curve by its name; of several tasks the mean by that name, and those of each."""
    name, ends = f"{curve['a']} to {curve['b']}, {curve['path']} path", {key: curve[key] for key in ("a", "b")}
    if "tasks" not in curve:
        return {name: curve}
    each = {task: {**ends, **part, "on": task} for task, part in curve["tasks"].items()}
    return {f"{MEAN}: {name}": {**curve, "on": f"the {MEAN} of {join_words(list(each))}"}, **each}


def aligned_models(report: Data) -> list[Data]:
    """The certificates in a report: its own, or one for each of several models, which then has a name."""
    return [{**report, **own} for own in report.get("aligned", [{}])]
