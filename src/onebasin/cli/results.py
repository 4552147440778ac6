"""The results of align, merge and barrier for people."""

from __future__ import annotations

from typing import Any

from onebasin.cli.output import console, duration, print_table, size
from onebasin.ensemble.words import describe_drift, describe_written
from onebasin.errors import one_line
from onebasin.landscape.tables import note_of, table_of
from onebasin.report.card import describe_merging
from onebasin.tasks.mixture import MEAN

TRAINED = ("", ": the average, all models and their plain average; --no-heal-compare trains the average alone")


def print_plan(plan: dict[str, Any]) -> None:
    """What a run would do."""
    *others, last = plan["models"]
    how = f"method {plan['method']}" if "method" in plan else f"{plan['path']} path, {plan['points']} points"
    console.print(f"{plan['verb']} {', '.join(others)} and {last} ({plan['class']}): {how}, on {plan['device']}")
    if plan.get("because"):
        console.print(plan["because"])
    if plan["task"]:
        console.print(f"data: {plan['task']['name']}, {plan['task']['samples']:,} samples")
    for note in plan["notes"]:
        console.print(one_line(f"note: {note}"))
    if "heal" in plan:
        heal = plan["heal"]
        cost = f"{heal['steps']:,} steps of {heal['batch']} samples each"
        console.print(f"healing: {heal['trainings']} trainings of {cost}{TRAINED[heal['trainings'] > 1]}")
    if "memory" in plan:
        gpu = f", {size(plan['gpu_memory'])} or more of the GPU" if plan["gpu_memory"] else ""
        console.print(f"memory: about {size(plan['memory'])}{gpu}")
        stages = ", ".join(f"{name} {duration(taken)}" for name, taken in plan["seconds"].items())
        console.print(f"time: about {duration(sum(plan['seconds'].values()))} ({stages})")
        for folder, nbytes in plan["writes"].items():
            console.print(f"writes: {'/'.join(filter(None, (plan['out'], folder)))}, {size(nbytes)} of weights")
        console.print(f"gauge: {plan['gauge']}")
    console.print("all checks passed; nothing was written")


def print_aligned(report: dict[str, Any]) -> None:
    """The heart of a certificate."""
    many = "universe" in report
    if many:
        course = " -> ".join(f"{value:.4g}" for value in report["universe"]["objective"])
        made = f"alignments of two models made: {report['universe']['alignments_made']}"
        console.print(f"spread around the mean {course}; {made}" if course else made)
    if "why" in report:
        console.print(report["why"])
    elif "learning" in report:
        before, after = report["learning"]["history"][0]["midpoint"], report["learning"]["midpoint"]
        place = "centre" if "aligned" in report else "midpoint"
        console.print(f"loss at the {place}, on samples held back: {before:.4f} -> {after:.4f}")
    for own in report.get("aligned", [report]):
        name = own.get("model", "aligned B")
        distances = f"distance from A {own['distance_before']:.4g} -> {own['distance_after']:.4g}"
        console.print(f"{name}: {distances}, output drift {describe_drift(own['output_drift'])}")
    if "reference" in report:
        console.print(f"A as it is written: output drift {describe_drift(report['reference']['output_drift'])}")
    for folder, own in report["written"].items():
        console.print(f"{'the file' if folder == '.' else folder}: {describe_written(own)}")
    console.print(f"gauge: {report['gauge']}")
    for sentence in describe_merging(report):
        console.print(sentence)
    if "verdict" in report:
        if report["scores"] is not None:
            print_scores(report["scores"])
        console.print(f"merged: {report['verdict']}")


def print_scores(scores: dict[str, Any]) -> None:
    """Models beside each other on one task."""
    head, *rows = table_of(scores)
    print_table(head, rows, left=[name for name in head if name in ("model", "task")])
    console.print(note_of(scores))


def print_measured(report: dict[str, Any]) -> None:
    """Every point of a curve or a surface, then its barrier with all it stands on; of several tasks that of each."""
    many, tasks = "vertices" in report, report.get("tasks", {})
    metrics = list(report["points"][0]["metrics"])
    shares = "λ (shares)" if many else "λ (share of B)"
    rows = []
    for i, (share, point) in enumerate(zip(report["shares"], report["points"], strict=True)):
        numbers = (point["loss"], point["standard_error"], *(point["metrics"][m] for m in metrics))
        each = (part["points"][i]["loss"] for part in tasks.values())
        rows.append((_share(share), *(f"{number:.4f}" for number in (*numbers, *each))))
    head = ("mean loss" if tasks else "loss", "± s.e.", *(m.replace("_", " ") for m in metrics), *tasks)
    print_table((shares, *head), rows)
    for name, part in {MEAN: report, **tasks}.items():
        console.print(f"{f'{name}: ' if tasks else ''}{_barrier(part)}")
    task, samples = report["task"], report["points"][0]["samples"]
    split = f", split {task['split']}" if "split" in task else ""
    console.print(f"{task['name']}{split}, {samples:,} samples")


def _barrier(report: dict[str, Any]) -> str:
    """The height of a barrier with the path and the end points it stands on."""
    many, barrier = "vertices" in report, report["barrier"]
    ends = report["vertices"] if many else list(report["ends"].values())
    *losses, last = (f"{end['loss']:.4f}" for end in ends)
    place = _share(barrier["shares" if many else "share"])
    height = f"barrier {barrier['loss']:.4f} ± {barrier['standard_error']:.4f} at λ = {place}"
    return (
        f"{height if barrier['loss'] > 0 else 'no barrier'} "
        f"(end points {', '.join(losses)} and {last}; {report['path']} path, {len(report['shares'])} points)"
    )


def _share(share: float | list[float]) -> str:
    """λ of a path, or of a simplex."""
    return " ".join(f"{x:.3g}" for x in share) if isinstance(share, list) else f"{share:.3g}"
