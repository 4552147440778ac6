"""Train a pair, align it by every method, measure every path, and write down what came of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from onebasin.checkpoint import Checkpoint, json_text, whole_folder
from onebasin.demo.training import train_pair
from onebasin.demo.variants import Variant
from onebasin.landscape.scores import Scores, score, verdict
from onebasin.methods.method import Tick, silent
from onebasin.paths import FactorPath
from onebasin.recipes import parse, run
from onebasin.recipes.document import FORMAT
from onebasin.report.html import write_report
from onebasin.report.html.words import name_metric
from onebasin.tasks import load_task
from onebasin.verification.certificate import versions

PLAIN, LEARNED = "plain average", "learned"
POINTS = 11
SEEDS = (0, 1)


def demonstrate(variant: Variant, out: Path, tick: Tick = silent, *, overwrite: bool = False) -> dict[str, Any]:
    """Everything of the demo in the new folder `out`; what was measured comes back as plain data.

    `a` and `b` are the trained models, a folder with the name of a method holds b aligned by it, `merged` the average
    of a and the learned one: stock checkpoints, all of them.
    """
    begin = time.perf_counter()
    with whole_folder(out, overwrite=overwrite) as folder:
        train_pair(variant, {seed: folder / name for name, seed in zip("ab", SEEDS, strict=True)}, tick)
        trained = time.perf_counter() - begin
        rows = [measured(variant, folder, PLAIN, folder / "b", 0.0, tick)]
        for method, document in methods(variant).items():
            start = time.perf_counter()
            carry_out(folder, {"verb": "align", "method": method, **document}, folder / "b", folder / method, tick)
            rows.append(measured(variant, folder, method, folder / method, time.perf_counter() - start, tick))
        tick("writing the merged model")
        FactorPath(Checkpoint.open(folder / "a"), Checkpoint.open(folder / LEARNED)).at(0.5).save(folder / "merged")
        scores = compared(variant, folder, tick)
        report = {
            "task": variant.name,
            "command": f"onebasin demo --task {variant.name}{' --quick' if variant.quick else ''} -o AGAIN",
            "models": variant.shown,
            "data": {"train": variant.train, "test": variant.test},
            "steps": variant.steps,
            "metric": variant.metric,
            "rows": rows,
            "scores": scores.as_dict(),
            "verdict": verdict(scores, {"a": "a", "b": "b"}, "merged"),
            "seconds": {"training": trained, "all": time.perf_counter() - begin},
            "versions": versions(),
        }
        report["conclusion"] = conclusion(report)
        (folder / "demo.json").write_text(json_text(report), encoding="utf-8")
        write_report(folder)
    return report


def methods(variant: Variant) -> dict[str, dict[str, Any]]:
    """Method -> the rest of its recipe.  None but the last sees a label, and `weight` and `auto` see no data."""
    return {
        "weight": {},
        "activation": {"task": {**variant.train, "samples": variant.inputs}},
        "auto": {"task": {"data": "synthetic", "samples": variant.made_up}, "learned": variant.auto},
        LEARNED: {"task": variant.train, "learned": variant.learn},
    }


def carry_out(folder: Path, document: dict[str, Any], b: Path, out: Path | None, tick: Tick) -> dict[str, Any]:
    """Run a recipe on `a` and another model."""
    write = {} if out is None else {"write": {"out": str(out)}}
    models = [str(folder / "a"), str(b)]
    return run(parse({"onebasin": FORMAT, "models": models, "device": "cpu", **document, **write}), tick, keep=False)


def measured(variant: Variant, folder: Path, method: str, b: Path, seconds: float, tick: Tick) -> dict[str, Any]:
    """One row: the path from `a` to the model in `b` on the test data."""
    curve = carry_out(folder, {"verb": "barrier", "points": POINTS, "task": variant.test}, b, None, tick)
    ends = [end["metrics"][variant.metric] for end in curve["ends"].values()]
    return {
        "method": method,
        "barrier": curve["barrier"]["loss"],
        "midpoint": curve["points"][POINTS // 2]["metrics"][variant.metric],
        "ends": sum(ends) / len(ends),
        "seconds": seconds,
        "curve": curve,
    }


def compared(variant: Variant, folder: Path, tick: Tick) -> Scores:
    """The two models, their averages and their ensemble on the test data."""
    models = {name: Checkpoint.open(folder / name) for name in ("a", "b")}
    task = load_task(variant.test["data"], models["a"], samples=variant.test["samples"])
    models |= {PLAIN: FactorPath(*models.values()).at(0.5), "merged": Checkpoint.open(folder / "merged")}
    pairs = {name: (model, task) for name, model in models.items()}
    return score(pairs, ["a", "b"], held="no model was trained on them", tick=tick)


def conclusion(report: dict[str, Any]) -> str:
    """The figures in one sentence."""
    rows = {row["method"]: row for row in report["rows"]}
    plain, learned = (f"{name_metric(rows[method]['midpoint'], report['metric'])}" for method in (PLAIN, LEARNED))
    ends = name_metric(rows[PLAIN]["ends"], report["metric"])
    return (
        f"Two models trained from different seeds reach {ends}; their plain average {plain}; "
        f"their average after learned alignment {learned}, with a loss barrier of {rows[LEARNED]['barrier']:.2f} "
        f"instead of {rows[PLAIN]['barrier']:.2f}."
    )
