"""What is a merge of models worth that know different things?  Experts, their merges, and training at equal cost.

Three settings (see _experts.py), three seeds of each.  Every row is one model, measured on test data of both tasks and
as their mean:

    A, B                both experts; "ensemble" runs both, at twice the cost
    plain average       of their files
    weight; auto        aligned by weights; by `auto`, without data; then averaged
    aligned             `dual` with gains (of BERT, which has none to learn, without) on both training tasks, 1,000
                        steps, then averaged: the weights of A and B are only turned
    aligned, shares     the same, and rows and columns of every tensor learn shares of their own
    X, then N           N steps of ordinary training on both training tasks, from row X: `onebasin merge --heal`
    from nothing, N     the same from random weights

A learned step costs more than one of training: every row has the seconds it took, "cost" is what was spent after the
experts were there, in steps of training of the same setting, by the seconds of both.  Nothing was chosen on test data.

    python benchmarks/run.py worth
    ONEBASIN_SETTINGS=text ONEBASIN_SEEDS=0 ONEBASIN_SECONDS=500 python benchmarks/run.py worth

What is done is kept in the folder .worth beside this file, row by row: type the same again to go on, and with
ONEBASIN_SECONDS no row is begun after that time.  Settings and seeds can run side by side in processes of their own,
once the data are there (ONEBASIN_SECONDS=0 writes them alone); every run writes the result from all that is there.
Without the folder it begins anew.  ONEBASIN_TINY=1 takes small models and few steps, to try the file on any machine.
"""

import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _compact import RESULTS
from _experts import EXPERTS, TINY, Pair
from matching import SHARED

NEEDS = (SHARED / "data",)
SETTINGS = os.environ.get("ONEBASIN_SETTINGS", ",".join(EXPERTS)).split(",")
SEEDS = [int(x) for x in os.environ.get("ONEBASIN_SEEDS", "0" if TINY else "0,1,2").split(",")]
SECONDS = float(os.environ.get("ONEBASIN_SECONDS", "inf"))
STEPS = (2, 4) if TINY else (300, 1000, 2500)  # of training after a merge, and of what it is compared with
PLAIN, ALIGNED, NOTHING, ENSEMBLE = "plain average", "aligned", "from nothing", "ensemble"
WITH_SHARES = f"{ALIGNED}, shares"
STARTS = ("A", "B", PLAIN, ALIGNED)
ROWS = [  # shorter trainings first: a run that is cut short has whole curves up to a point
    "A", "B", PLAIN, ENSEMBLE, "weight", ALIGNED, "auto", WITH_SHARES,
    *(row for steps in STEPS for row in (*(f"{start}, then {steps}" for start in STARTS), f"{NOTHING}, {steps}")),
]  # fmt: skip
RATE = 0.3  # of the learning rate that the experts were trained with, for training that goes on
BEGUN = time.monotonic()


def measure() -> dict[str, Any]:
    if not TINY:
        return measured(Path(__file__).resolve().parent / ".worth")
    with tempfile.TemporaryDirectory(prefix="onebasin-worth-") as folder:
        return measured(Path(folder))


def measured(kept: Path) -> dict[str, Any]:
    for setting in SETTINGS:
        data = kept / setting / "data"
        if not data.is_dir():
            fresh = kept / setting / f"data.{os.getpid()}"
            fresh.mkdir(parents=True)
            EXPERTS[setting].write(fresh)
            fresh.rename(data)
        for seed in SEEDS:
            experiment = Experiment(EXPERTS[setting], data, kept / setting / str(seed), seed)
            for row in ROWS:
                if time.monotonic() - BEGUN < SECONDS:
                    experiment.row(row)
    found = {setting: summary(kept / setting) for setting in EXPERTS if (kept / setting).is_dir()}
    if not TINY:
        draw(found, RESULTS / "worth.svg")
    return {"steps of training after": STEPS, **found}


class Experiment:
    """One pair of experts, and every row of it, kept in `folder`."""

    def __init__(self, pair: Pair, data: Path, folder: Path, seed: int) -> None:
        import torch

        self.pair, self.data, self.folder, self.seed = pair, data, folder, seed
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.folder.mkdir(parents=True, exist_ok=True)

    def row(self, name: str) -> None:
        """Make and measure the model of a row, unless that is done; only models that others start from are kept."""
        file = self.folder / f"{name}.json"
        if file.is_file():
            return
        models = [self.model(one) for one in (("A", "B") if name == ENSEMBLE else (name,))]
        seconds = json.loads((models[-1] / "seconds.json").read_text(encoding="utf-8"))
        found = {"made in": round(seconds, 1), **self.quality(*models)}
        file.write_text(json.dumps(found), encoding="utf-8")
        if name not in (*STARTS, ENSEMBLE):
            shutil.rmtree(models[0])
        print(file.parent.parent.name, self.seed, name, json.dumps(found), file=sys.stderr, flush=True)

    def model(self, name: str) -> Path:
        """The model of a row, made now if it is not there; beside it lies how many seconds its own last part took."""
        folder = self.folder / "models" / name
        if not folder.is_dir():
            for start in self.starts(name):
                self.model(start)
            began = time.perf_counter()
            partial = folder.with_name(f".{name}.{os.getpid()}")
            shutil.rmtree(partial, ignore_errors=True)
            self.make(name, partial)
            (partial / "seconds.json").write_text(json.dumps(time.perf_counter() - began), encoding="utf-8")
            partial.rename(folder)
        return folder

    def starts(self, name: str) -> tuple[str, ...]:
        """What a model is made of."""
        start, _, steps = name.partition(", then ")
        if steps:
            return (start,)
        return () if name in ("A", "B") or name.startswith(NOTHING) else ("A", "B")

    def make(self, name: str, out: Path) -> None:
        start, _, steps = name.partition(", then ")
        if steps:
            self.train(
                self.model(start), self.pair.names, out, {"steps": int(steps), "lr": RATE * self.pair.train["lr"]}
            )
        elif name in ("A", "B"):
            number = "AB".index(name)
            self.train(self.fresh(2 * self.seed + number), (self.pair.names[number],), out, {})
        elif name.startswith(NOTHING):
            steps = int(name.rpartition(" ")[2])
            self.train(self.fresh(1000 + self.seed), self.pair.names, out, {"steps": steps})
        else:
            self.merge(name, out)

    def fresh(self, seed: int) -> Path:
        folder = self.folder / "models" / f"fresh {seed}"
        if not folder.is_dir():
            self.pair.fresh(folder, seed)
        return folder

    def merge(self, name: str, out: Path) -> None:
        import onebasin
        from onebasin import Checkpoint
        from onebasin.paths import FactorPath

        models = [self.model("A"), self.model("B")]
        if name == PLAIN:
            FactorPath(*map(Checkpoint.open, models)).at([0.5, 0.5]).save(out)
            return
        ways: dict[str, dict[str, Any]] = {
            "weight": {"method": "weight"},
            "auto": {"method": "auto", "learned": {"seed": self.seed}},
            ALIGNED: self.dual(),
            WITH_SHARES: self.dual("shares"),
        }
        onebasin.merge(models, **ways[name], device=self.device).save(out)

    def dual(self, *more: str) -> dict[str, Any]:
        """Learned on both training tasks; `more` are groups that learn, too."""
        learned = {**self.pair.learned, "learn": [*self.pair.learned["learn"], *more], "seed": self.seed}
        return {"method": "learned", "task": self.tasks("train"), **self.sizes("train"), "learned": learned}

    def train(self, start: Path, names: tuple[str, ...], out: Path, more: dict[str, Any]) -> None:
        """Ordinary training on some of the training tasks."""
        import torch

        from onebasin import Checkpoint
        from onebasin.healing.options import Healing
        from onebasin.healing.train import heal
        from onebasin.tasks import as_task, training

        model = Checkpoint.open(start)
        data = training(as_task(self.tasks("train", names), model, **self.sizes("train")))
        options = Healing(**{**self.pair.train, **more, "seed": self.seed})
        heal(model, data, options, device=torch.device(self.device))[0].save(out)

    def tasks(self, split: str, names: tuple[str, ...] | None = None) -> dict[str, str]:
        return {name: self.pair.task(self.data, name, split) for name in names or self.pair.names}

    def sizes(self, split: str) -> dict[str, int | None]:
        return {"samples": self.pair.sizes.get(split), "length": self.pair.sizes.get("length")}

    def quality(self, *models: Path) -> dict[str, Any]:
        """Loss and metrics on both test tasks, and their mean."""
        import onebasin

        scores = onebasin.evaluate(
            *models, ensemble=len(models) > 1, task=self.tasks("test"), **self.sizes("test"), device=self.device
        )
        row = scores.as_dict()["rows"][-1]
        return {**figures(row), **{name: figures(part) for name, part in row["tasks"].items()}}


def figures(row: dict[str, Any]) -> dict[str, float]:
    return {"loss": row["loss"], "standard error": row["standard_error"], **row["metrics"]}


# ---- what all seeds say


def summary(folder: Path) -> dict[str, Any]:
    """Every row: mean and standard error over seeds of loss, accuracy and losses by task; its cost; missing rows."""
    seeds = sorted(int(x.name) for x in folder.iterdir() if x.name.isdigit())
    found: dict[str, Any] = {"seeds": seeds, "missing": []}
    for row in ROWS:
        there = {seed: read(folder / str(seed), row) for seed in seeds}
        found["missing"] += [f"{row}, seed {seed}" for seed, x in there.items() if x is None]
        rows = [x for x in there.values() if x is not None]
        if rows:
            costs = [cost(folder / str(seed), row) for seed, x in there.items() if x is not None]
            tasks = [name for name, x in rows[0].items() if isinstance(x, dict)]
            found[row] = {
                "loss": over(rows, lambda x: x["loss"]),
                **{name: over(rows, lambda x, name=name: x[name]["loss"]) for name in tasks},
                "accuracy": over(rows, lambda x: x["accuracy"]),
                "cost": round(statistics.mean(costs), 1),
            }
    return found


def over(rows: list[dict[str, Any]], value: Callable[[dict[str, Any]], float]) -> dict[str, float | None]:
    values = [value(row) for row in rows]
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
    return {"mean": round(statistics.mean(values), 4), "standard error": None if error is None else round(error, 4)}


def read(folder: Path, row: str) -> dict[str, Any] | None:
    file = folder / f"{row}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def cost(folder: Path, row: str) -> float:
    """What was spent on a row after the experts were there, in steps of training; NaN where that is unknown."""
    start, _, steps = row.partition(", then ")
    if row.startswith(NOTHING):
        return float(row.rpartition(" ")[2])
    spent = float(steps) if steps else 0.0
    if start in (ALIGNED, WITH_SHARES, "auto", "weight"):
        aligning = read(folder, start)
        spent += float("nan") if aligning is None else aligning["made in"] / seconds_of_step(folder)
    return spent


def seconds_of_step(folder: Path) -> float:
    """Of training on both tasks: the longest training of A that there is."""
    trained = [(x, steps) for steps in STEPS if (x := read(folder, f"A, then {steps}"))]
    return trained[-1][0]["made in"] / trained[-1][1] if trained else float("nan")


def draw(found: dict[str, Any], file: Path) -> None:
    """Mean loss against cost, one panel a setting: a line for every start, a star for every other merge."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    with rc_context({"svg.hashsalt": "onebasin", "svg.fonttype": "none", "text.parse_math": False}):
        ticks = [0, *STEPS[:2], 2 * STEPS[-1]]
        figure = Figure(figsize=(4.5 * len(found), 4.5), layout="constrained")
        panels = figure.subplots(1, len(found), squeeze=False)[0]
        for axes, (setting, rows) in zip(panels, found.items(), strict=True):
            for start in (*STARTS, NOTHING):
                names = [x for x in rows if x == start or re.match(rf"{start}, (then )?\d", x)]
                put(axes, rows, names, start, marker="o")
            for name in ("weight", "auto", WITH_SHARES):
                put(axes, rows, [name] if name in rows else [], name, marker="*", markersize=12, linestyle="")
            if ENSEMBLE in rows:
                axes.axhline(rows[ENSEMBLE]["loss"]["mean"], linestyle="--", color="gray", label=ENSEMBLE)
            axes.set(title=setting, xlabel="cost after the experts, in steps of training", ylabel="mean loss, nats")
            axes.set_xscale("symlog", linthresh=STEPS[0])
            axes.set_xticks(ticks, ticks)
            axes.set_yscale("log")
            axes.xaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("{x:g}")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=9, fontsize="small")
        figure.savefig(file, metadata={"Date": None})


def put(axes: Any, rows: dict[str, Any], names: list[str], label: str, **look: Any) -> None:
    """Points of these rows in the order of their costs, as one line."""
    line = sorted((rows[name] for name in names), key=lambda row: row["cost"])
    costs, losses = [row["cost"] for row in line], [row["loss"]["mean"] for row in line]
    axes.errorbar(costs, losses, [row["loss"]["standard error"] or 0 for row in line], capsize=3, label=label, **look)
