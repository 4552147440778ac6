"""The table of models beside each other as text: for the terminal, pages and model cards alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from onebasin.landscape.evaluate import METRICS
from onebasin.tasks.mixture import MEAN


def table_of(scores: Mapping[str, Any]) -> list[list[str]]:
    """The table of `Scores.as_dict()` as text, its head first: model, loss, the metric that says most.

    Of several tasks a model has a line for each of them, and one for their mean.
    """
    rows = scores["rows"]
    measured = list(rows[0]["metrics"]) if rows else ["accuracy"]
    metric = next((x for x in (*METRICS, *measured) if x in measured), "")
    scale, unit = (100, " %") if metric == "accuracy" else (1, "")

    def figures(row: Mapping[str, Any]) -> list[str]:
        loss = plus_minus(row["loss"], row["standard_error"], least=4)
        value, error = (scale * row[key].get(metric, 0.0) for key in ("metrics", "metric_errors"))
        return [loss, plus_minus(value, error, least=1 if unit else 4) + unit if metric else ""]

    head, several = ["loss", metric.replace("_", " ")], "tasks" in scores["task"]
    if not several:
        lines = [[row["name"], *figures(row)] for row in rows]
        return [["model", *head], *lines, *([name, "not measured", ""] for name in scores["missing"])]
    lines = [[row["name"] if first else "", task, *figures(part)] for row in rows for first, task, part in _lines(row)]
    return [["model", "task", *head], *lines, *([name, "", "not measured", ""] for name in scores["missing"])]


def _lines(row: Mapping[str, Any]) -> list[tuple[bool, str, Mapping[str, Any]]]:
    """(whether it is the first, what it is called, figures): every task of a row, and their mean."""
    found = [*row["tasks"].items(), (MEAN, row)]
    return [(i == 0, name, part) for i, (name, part) in enumerate(found)]


def note_of(scores: Mapping[str, Any]) -> str:
    """What the table was measured on, and why a row is empty."""
    task, rows = scores["task"], scores["rows"]
    split = f", split {task['split']}" if "split" in task else ""
    count = f"{rows[0]['samples']:,} samples, " if rows else ""
    why = [f"{name} not measured: {reason}" for name, reason in scores["missing"].items()]
    if "tasks" in task:
        split = ", " + ", ".join(f"{name} ({one['name']}): {one['weight']:.3g}" for name, one in task["tasks"].items())
    said = filter(None, [f"{task['name']}{split}, {count}± one standard error", scores["held"], *why])
    return "; ".join(said)


def plus_minus(value: float, error: float, least: int = 2) -> str:
    """A number to the places that its error leaves, `least` at least."""
    places = max(least, -math.floor(math.log10(error))) if error > 0 else least
    return f"{value:.{places}f} ± {error:.{places}f}"
