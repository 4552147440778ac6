"""The end of a reproduction: published beside ours, as plain data, as a table in Markdown and as a figure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from onebasin.reproduce.page import write_spread
from onebasin.reproduce.plan import TURNED, Entry, Plan, Row
from onebasin.verification.certificate import versions

METRICS = ("bits_per_byte", "perplexity", "accuracy")  # the first that was measured is shown


def report_of(
    entry: Entry, budget: str, plan: Plan, results: Mapping[str, Any], failed: Mapping[str, str],
    trained: Mapping[str, float], device: str,
) -> dict[str, Any]:  # fmt: skip
    """Everything that is known, most important first; what is missing is counted."""
    lines: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in plan.rows:
        lines[row.group, row.label].append(row)
    table = []
    for (group, label), rows in lines.items():
        found = [results[row.key] for row in rows if row.key in results]
        published = entry.published.get((group, label.partition(" @ ")[0]))
        line: dict[str, Any] = {"group": group, "label": label, "pairs": len(found), "of": len(rows)}
        line |= {"published": None if published is None else str(published)}
        line |= {"where": None if published is None else published.where}
        table.append({**line, **(summary(found) if found else {})})
    if entry.digest is not None:
        table = entry.digest(table)
    measured = {row.key: {**row.settings(), **results[row.key]} for row in plan.rows if row.key in results}
    return {
        "entry": entry.name, "title": entry.title, "budget": budget, "differs": entry.differs, "device": device,
        "versions": versions(), "measured": len(results), "of": len(plan.rows), "table": table,
        "failed": dict(failed), "training_seconds": dict(trained), "rows": measured,
    }  # fmt: skip


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard error over pairs: barriers by path, end points, metrics of ends and midpoint."""
    paths: dict[str, Any] = {}
    for name in found[0]["paths"]:
        curves = [one["paths"][name] for one in found]
        paths[name] = {
            "barrier": spread([curve["barrier"] for curve in curves]),
            "ends": spread([fmean(curve["ends"]) for curve in curves]),
            "midpoint": spread([curve["midpoint"] for curve in curves]),
            "metrics": {
                metric: {part: spread([one[part] for one in each]) for part in ("ends", "middle")}
                for metric in METRICS if metric in curves[0]["metrics"]
                for each in [[curve["metrics"][metric] for curve in curves]]
            },
            "shares": curves[0]["shares"],
            "losses": [fmean(each) for each in zip(*(curve["losses"] for curve in curves), strict=True)],
        }  # fmt: skip
    validated = [one["learning"]["barrier"] for one in found if "barrier" in one.get("learning", {})]
    more = {"validated": spread(validated)} if validated else {}
    angles = [each["median"] for one in found for each in one.get("turned", {}).values()]
    more |= {"turned": spread(angles)} if angles else {}
    more |= {"weakest": min(one["weakest"] for one in found)}
    return {"paths": paths, "seconds": fmean(one["seconds"] for one in found), **more}


def spread(values: list[float]) -> dict[str, Any]:
    """Mean, and its standard error where there are several values."""
    error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
    return {"mean": fmean(values), "standard_error": error, "each": values}


def cells(line: Mapping[str, Any]) -> list[str]:
    """One line of the table: group, label, published, ours by path, end points, angles, pairs."""
    paths = line.get("paths", {})
    ours = [write_spread(paths[name]["barrier"]) if name in paths else "" for name in ("circuit", "factor")]
    if not paths:
        ours[0] = "not measured yet"
    any_path = next(iter(paths.values()), None)
    ends = "" if any_path is None else write_spread(any_path["ends"])
    middle = ""
    if any_path is not None and (metric := next((m for m in METRICS if m in any_path["metrics"]), None)):
        both = any_path["metrics"][metric]
        middle = f"{metric.replace('_', ' ')} {both['ends']['mean']:.4g} → {both['middle']['mean']:.4g}"
    label = line["label"] + (f" (rate {line['rate']})" if line.get("rate") else "")
    turned = write_spread(line["turned"], 2) if line.get("turned") else ""
    return [line["group"], label, line["published"] or "", *ours, ends, middle, turned, f"{line['pairs']}"]


HEADER = (
    "", "", "published", "ours, circuit path", "ours, factor path", "loss of ends", "ends → midpoint", TURNED, "pairs",
)  # fmt: skip


def table_of(report: Mapping[str, Any]) -> str:
    """The table in Markdown, with what differs."""
    lines = [
        f"# {report['title']}", "",
        f"Budget `{report['budget']}`, {report['measured']} of {report['of']} rows measured; loss barrier, mean ± "
        "standard error over pairs.", "", f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|",
        *(f"| {' | '.join(cells(line))} |" for line in report["table"]), "", report["differs"], "",
    ]  # fmt: skip
    return "\n".join(lines)


def _is_curve(found: Mapping[str, Any]) -> bool:
    """Whether it lies between two models."""
    return not isinstance(found["shares"][0], list)


def draw(report: Mapping[str, Any], file: Path) -> None:
    """One panel a group: the mean loss along the first path of every label."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    drawn = (line for line in report["table"] for curve in line.get("paths", {}).values() if _is_curve(curve))
    groups = list(dict.fromkeys(line["group"] for line in drawn))
    if not groups:
        return
    columns = min(4, len(groups))
    height = -(-len(groups) // columns)
    with rc_context({"svg.hashsalt": "onebasin", "svg.fonttype": "none", "text.parse_math": False}):
        figure = Figure(figsize=(4 * columns, 3.2 * height), layout="constrained")
        for axes, group in zip(figure.subplots(height, columns, squeeze=False).flat, groups, strict=False):
            for line in report["table"]:
                curve = next(iter(line.get("paths", {}).values()), None)
                if line["group"] == group and curve is not None and _is_curve(curve):
                    axes.plot(curve["shares"], curve["losses"], label=line["label"], linewidth=1.2)
            axes.set(title=group, xlabel="share of B", ylabel="test loss")
            axes.legend(fontsize="x-small")
            axes.grid(alpha=0.3)
        figure.savefig(file, metadata={"Date": None})
