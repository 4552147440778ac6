"""The page of what the papers publish beside what we measured, made from the files of results; free of torch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from onebasin.reproduce.plan import TURNED, Entry
from onebasin.reproduce.registry import ENTRIES

MISSING = "not measured yet"
NO_DATA = "not possible here: these data are not at hand"
SMALLER = f"{NO_DATA}; smaller models above"
ELSEWHERE = (  # what else the papers show: what it is, what they find, ours or why there is none
    ("first paper, Table 2: CIFAR-100", "vanilla 2.46 ± 0.04, activation 2.11 ± 0.17, weight 0.69 ± 0.21, learned, "
     "permutations 0.53 ± 0.07, learned 0.00", NO_DATA),
    ("first paper, Table 2: Tiny ImageNet", "vanilla 2.84 ± 0.02, activation 1.86 ± 0.10, weight 0.47 ± 0.04, learned, "
     "permutations 0.29 ± 0.02, learned 0.00; end points 2.54 ± 0.02, 44.19 ± 0.17 %", NO_DATA),
    ("first paper, Table 2: BookCorpus", "vanilla 4.34 ± 0.09, activation 4.05 ± 0.13, weight 1.56 ± 0.02, learned, "
     "permutations 1.60 ± 0.04, learned 0.42 ± 0.01; end points 3.55 ± 0.01", NO_DATA),
    ("first paper's code, run by others on one pair on Tiny Shakespeare (second-hand)", "vanilla 1.540, weight 0.135, "
     "learned 0.000; end points 5.133 and 5.113", "Table 2 above; one pair tells little"),
    ("first paper: orders hardly change when they learn", "a finding, no numbers",
     "learning orders beside rotations changes nothing: [measured](learning-measured.md#what-matters)"),
    ("first paper's code: only words of the training text count in matching", "an option of the code",
     "not here: its own scripts run without it, as far as we can tell"),
    ("first paper: heads multiplied out, D + 1 wide", "the merged model is larger by (D + 1)/d in attention",
     "the same function with heads of twice the width, and no stock model either: `--path circuit`"),
    ("second paper: the symmetries of attention are all there are (theorems 2.1, 4.1, 4.2)", "a proof",
     "that each of them is exact is tested for every class; how far a model meets the conditions: `onebasin inspect A "
     "B --weights` ([attention](attention.md#is-a-model-generic))"),
    ("second paper: MNIST, CIFAR-10 and CIFAR-100 ViTs with learned and with rotary positions", "the same four "
     "protocols; CIFAR-10, 6 layers, all attention: losses from 0.8 to 1.4 (axis, second-hand)",
     "not possible here: no two of our vision models differ in their positions alone"),
    ("second paper: ImageNet-1k and ImageNet-21k ViTs", "all attention and first layer connected in part, everything "
     "not: losses from 2 to 8 (axis, second-hand)", NO_DATA),
    ("second paper: BERT on AG News, IMDB, DBPedia", "the same four protocols (second-hand)",
     "ours fill gaps in bytes of WikiText-2, above; IMDB and DBPedia are not at hand"),
    ("second paper: GPT-2 on Enwik8 with 4, 8 and 16 heads", "connected where attention alone is drawn again "
     "(second-hand)", SMALLER),
    ("second paper: GPT-2 on WikiText-103", "all attention: losses from 3.75 to 5.0; everything: 4 to 8 (axis, "
     "second-hand)", SMALLER),
    ("second paper: GPT-2 on 1BW", "first attention: losses from 3.398 to 3.402 (axis, second-hand)", SMALLER),
    ("second paper: Llama on Enwik8 and WikiText-103", "first attention on WikiText-103: losses from 3.64 to 3.68, "
     "perplexity 38 to 39.5 (axis, second-hand)", SMALLER),
    ("third paper: ViT-L on ImageNet", "at least 69 % along the path (abstract)", "not possible here: no ImageNet"),
    ("third paper: Pythia models on WikiText", "near zero for medium sizes (abstract)",
     "not comparable: its pairs are not known to us; smaller language models above"),
    ("third paper: models of a billion weights", "small barriers (abstract)", MISSING),
    ("third paper: two sides reach paths that one side does not", "not said in what we could read",
     "no: every map acts linearly, so a two-sided path is a one-sided path seen from another basis"),
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
    shown = [TURNED] if any("turned" in line for line in lines.values()) else []
    header = ["", "", "published", "ours, circuit path", "ours, factor path", "loss of ends", *shown, "pairs"]
    yield from (f"| {' | '.join(header)} |", "|---" * len(header) + "|")
    keys = list(lines) if lines else list(entry.published)
    for group, label in keys:
        line = lines.get((group, label))
        said = entry.published.get((group, label)) if line is None else line["published"]
        yield f"| {group} | {label} | {said or ''} | {' | '.join(_ours(line, turned=bool(shown)))} |"
    yield ""


def _ours(line: dict[str, Any] | None, *, turned: bool) -> list[str]:
    """Barriers by path, the loss of the end points, angles where they are shown, and how many pairs."""
    paths = {} if line is None else line.get("paths", {})
    angle = [write_spread(line["turned"]) if line and "turned" in line else ""] if turned else []
    if line is None or not paths:
        return [MISSING, "", "", *angle, ""]
    barriers = [write_spread(paths[name]["barrier"]) if name in paths else "" for name in ("circuit", "factor")]
    return [*barriers, write_spread(next(iter(paths.values()))["ends"]), *angle, str(line["pairs"])]


def write_spread(value: Mapping[str, Any], digits: int = 3) -> str:
    """Mean ± standard error."""
    text = f"{value['mean']:.{digits}f}"
    return text if value["standard_error"] is None else f"{text} ± {value['standard_error']:.{digits}f}"
