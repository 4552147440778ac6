"""The page of what the papers publish beside what we measured, made from the files of results; free of torch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from onebasin.reproduce.plan import Entry
from onebasin.reproduce.registry import ENTRIES

MISSING = "not measured yet"
ELSEWHERE = (  # what else the papers show: what it is, what they find, ours or why there is none
    ("first paper, Table 2: CIFAR-100, Tiny ImageNet, BookCorpus", "learned 0.00, 0.00, 0.42",
     "not possible here: these data are not at hand"),
    ("first paper, soft permutations", "a lower midpoint than straight-through; the end point is another model",
     "[measured](learning-measured.md#what-matters)"),
    ("first paper, three models on the simplex", "a figure, no numbers", "[many models](many.md)"),
    ("first paper, models of unequal width", "near zero, a figure", "[unequal sizes](sizes.md)"),
    ("second paper: ViT with rotary positions", "the same four protocols (second-hand)",
     "not possible here: no two of our vision models differ in their positions alone"),
    ("second paper: ImageNet, WikiText-103, 1BW, Enwik8, IMDB, DBPedia", "ranges of axes only",
     "not possible here: these data are not at hand"),
    ("third paper: ViT-L on ImageNet", "at least 69 % along the path (abstract)", "not possible here: no ImageNet"),
    ("third paper: models of a billion weights", "small barriers (abstract)", MISSING),
)  # fmt: skip


def page(folder: Path) -> str:
    """All entries with published numbers, and what is elsewhere, as Markdown; `folder` holds NAME.json of each."""
    parts = [part for entry in ENTRIES.values() for part in _entry(entry, folder / f"{entry.name}.json")]
    rows = [f"| {' | '.join(row)} |" for row in ELSEWHERE]
    rest = ["### What else the papers show", "", "| what | published | ours |", "|---|---|---|", *rows, ""]
    return "\n".join([*parts, *rest])


def _entry(entry: Entry, file: Path) -> Iterator[str]:
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    lines = {(line["group"], line["label"]): line for line in found["table"]} if found else {}
    yield from (f"### {entry.title}", "")
    command = f"`onebasin reproduce {entry.name} --budget {found['budget'] if found else 'small'}"
    yield from (f"{command} --data FOLDER -o OUT`{', ' + found['device'] if found else ''}. {entry.differs}", "")
    yield from ("| | | published | ours, circuit path | ours, factor path | loss of ends | pairs |", "|---" * 7 + "|")
    keys = list(lines) if lines else list(entry.published)
    for group, label in keys:
        line = lines.get((group, label))
        said = entry.published.get((group, label)) if line is None else line["published"]
        yield f"| {group} | {label} | {said or ''} | {' | '.join(_ours(line))} |"
    yield ""


def _ours(line: dict[str, Any] | None) -> list[str]:
    """Barriers by path, the loss of the end points, and how many pairs."""
    paths = {} if line is None else line.get("paths", {})
    if line is None or not paths:
        return [MISSING, "", "", ""]
    barriers = [write_spread(paths[name]["barrier"]) if name in paths else "" for name in ("circuit", "factor")]
    return [*barriers, write_spread(next(iter(paths.values()))["ends"]), str(line["pairs"])]


def write_spread(value: Mapping[str, Any], digits: int = 3) -> str:
    """Mean ± standard error."""
    text = f"{value['mean']:.{digits}f}"
    return text if value["standard_error"] is None else f"{text} ± {value['standard_error']:.{digits}f}"
