"""Several tasks on the command line, the share of B chosen by their mean, and training after a merge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

import onebasin
from helpers.random_models import byte_llama
from onebasin import Checkpoint
from onebasin.checkpoint.stock import stock_model
from onebasin.landscape import evaluate
from onebasin.tasks import as_task

SIZE = ("--samples", "24", "--length", "8", "--device", "cpu")
WEIGHT = ("--method", "weight", "--set", "weight.sweeps=2")


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """Two models that read bytes, and two texts that have nothing in common."""
    root = tmp_path_factory.mktemp("experts")
    byte_llama(root / "a", 0)
    byte_llama(root / "b", 1)
    (root / "words.txt").write_text("the cat sat on the mat, and the dog did not. " * 40)
    (root / "digits.txt").write_text(" ".join(str(i * i) for i in range(400)))
    return root


@pytest.fixture(scope="module")
def both(root) -> tuple[str, ...]:
    return ("--task", f"words=text:{root / 'words.txt'}", "--task", f"digits=text:{root / 'digits.txt'}")


def test_eval_prints_every_task_and_the_mean(cli, root, both):
    weighed = (*both, "--task-weight", "digits=3", *SIZE)
    code, out, err = cli("eval", root / "a", root / "b", "--ensemble", *weighed, "--json")
    assert (code, err) == (0, "")
    rows = json.loads(out)["rows"]
    for name in ("a", "b"):
        row = next(row for row in rows if row["name"] == name)
        parts = {task: part["loss"] for task, part in row["tasks"].items()}
        assert row["loss"] == pytest.approx(0.25 * parts["words"] + 0.75 * parts["digits"])
        for task in parts:
            alone = cli("eval", root / name, "--task", f"text:{root / f'{task}.txt'}", *SIZE, "--json")[1]
            assert json.loads(alone)["rows"][0]["loss"] == parts[task]
    text = cli("eval", root / "a", *weighed)[1]
    assert [line.split()[-7 if i == 0 else 0] for i, line in enumerate(text.splitlines()[1:4])] == [
        "words", "digits", "mean",
    ]  # fmt: skip
    found = onebasin.evaluate(
        root / "a", root / "b", ensemble=True, samples=24, length=8, device="cpu", task_weights={"digits": 3},
        task={name: f"text:{root / f'{name}.txt'}" for name in ("words", "digits")},
    ).as_dict()  # fmt: skip
    assert found == json.loads(out)


def test_a_barrier_has_the_curves_of_all_tasks(cli, root, both, tmp_path):
    out = tmp_path / "out"
    code, text, _ = cli("barrier", root / "a", root / "b", *both, *SIZE, "--points", "3", "-o", out)
    assert code == 0
    found = json.loads((out / "barrier.json").read_text())
    for i, point in enumerate(found["points"]):
        parts = [part["points"][i]["loss"] for part in found["tasks"].values()]
        assert point["loss"] == pytest.approx(sum(parts) / 2)
        assert all(f"{value:.4f}" in text for value in (point["loss"], *parts))
    page, picture = (out / "report.html").read_text(), (out / "barrier.svg").read_text()
    for name in ("mean: a to b, factor path", "words", "digits"):
        assert f"{name}: " in page
        assert name in picture
    for name in ("mean", "words", "digits"):
        assert f"{name}: no barrier" in text or f"{name}: barrier" in text
    again = tmp_path / "again"
    assert cli("run", out / "recipe.yaml", "-o", again, "--quiet")[0] == 0
    assert json.loads((again / "barrier.json").read_text())["points"] == found["points"]


def test_the_share_is_that_of_the_lowest_mean_loss(cli, root, both, tmp_path):
    """On samples that the result is not measured on; recorded as a number, with the path that it was read from."""
    out = tmp_path / "out"
    code, text, _ = cli("merge", root / "a", root / "b", "-o", out, *WEIGHT, *both, *SIZE, "--share", "best")
    assert code == 0
    report, recipe = (
        json.loads((out / "certificate.json").read_text()),
        yaml.safe_load((out / "recipe.yaml").read_text()),
    )
    path = report["path"]
    losses = [point["loss"] for point in path["points"]]
    assert path["shares"][losses.index(min(losses))] == path["best"] == recipe["share"] == report["shares"][1]
    assert min(losses) < min(losses[0], losses[-1])  # two models that are sure of what is wrong
    assert {name: len(part["points"]) for name, part in path["tasks"].items()} == {"words": 21, "digits": 21}
    assert path["points"][0]["samples"] + report["scores"]["rows"][0]["samples"] == 48
    for shown in (text, (out / "report.html").read_text(), (out / "README.md").read_text()):
        assert f"The share of B is {path['best']:.2g}" in shown
    code, _, _ = cli("run", out / "recipe.yaml", "-o", tmp_path / "again", "--quiet")
    assert code == 0
    assert same(out, tmp_path / "again")


def same(*folders: Path) -> bool:
    one, two = (load_file(folder / "model.safetensors") for folder in folders)
    return all(one[name].equal(two[name]) for name in one)


HEAL = ("--set", "heal.batch=16", "--heal-rate", "0.01")


@pytest.fixture(scope="module")
def healed(root, both, tmp_path_factory) -> tuple[Path, Path]:
    """A merge without and with training."""
    from onebasin.cli import main

    outs = [tmp_path_factory.mktemp("merged") / name for name in ("plain", "healed")]
    for out, more in zip(outs, ((), ("--heal", "20", *HEAL)), strict=True):
        with pytest.raises(SystemExit) as done:
            main([*map(str, ("merge", root / "a", root / "b", "-o", out, *WEIGHT, *both, *SIZE, *more, "--quiet"))])
        assert not done.value.code
    return outs[0], outs[1]


def test_healing_lowers_the_loss_and_is_compared_at_equal_steps(healed, root, both):
    plain, out = healed
    report = json.loads((out / "certificate.json").read_text())
    losses = report["healing"]["losses"]
    rows = {row["name"]: row for row in report["scores"]["rows"]}
    trained = ["healed", "A (a), trained", "B (b), trained", "plain average, trained"]
    assert list(losses) == trained
    assert all(course[-1] < course[0] for course in losses.values())
    assert rows["healed"]["loss"] < rows["merged"]["loss"]
    assert list(rows) == ["A (a)", "B (b)", "plain average", "merged", *trained, "ensemble"]
    assert report["equal_steps"].split()[0] in ("better", "worse", "neither")
    for file in ("report.html", "README.md"):
        shown = (out / file).read_text()
        assert "After merging all weights were trained: 20 steps of 16 samples of words and digits." in shown
        assert f"With the same training for all it is {report['equal_steps']}." in shown
    tasks = {name: f"text:{root / f'{name}.txt'}" for name in ("words", "digits")}
    model = Checkpoint.open(out)
    whole = as_task(tasks, model, samples=24, length=8)
    assert evaluate(stock_model(model, torch.float32), whole).loss < evaluate(
        stock_model(Checkpoint.open(plain), torch.float32), whole
    ).loss  # fmt: skip
    assert not same(plain, out)
    assert json.loads((plain / "certificate.json").read_text())["output_drift"] == report["output_drift"]


def test_no_steps_leave_the_merged_model(cli, healed, root, both, tmp_path):
    code, _, _ = cli("merge", root / "a", root / "b", "-o", tmp_path / "out", *WEIGHT, *both, *SIZE, "--heal", "0")
    assert code == 0
    assert same(healed[0], tmp_path / "out")
    assert "healing" not in json.loads((tmp_path / "out/certificate.json").read_text())


def test_a_healed_model_is_made_again_from_its_recipe(cli, healed, tmp_path):
    """The comparison does not change the result, and Python gives the same."""
    recipe = healed[1] / "recipe.yaml"
    code, text, _ = cli("run", recipe, "-o", tmp_path / "again", "--set", "heal.compare=false")
    assert code == 0
    assert same(healed[1], tmp_path / "again")
    assert "trained  " not in text
    said = yaml.safe_load(recipe.read_text())
    folder = recipe.parent
    merged = onebasin.merge(
        [folder / model for model in said["models"]], heal=said["heal"], method="weight", weight={"sweeps": 2},
        task={name: f"text:{folder / one.removeprefix('text:')}" for name, one in said["task"]["data"].items()},
        samples=24, length=8, device="cpu",
    )  # fmt: skip
    merged.save(tmp_path / "python")
    assert same(healed[1], tmp_path / "python")


def test_the_plan_says_what_healing_costs(cli, root, both, tmp_path):
    flags = (
        "merge",
        root / "a",
        root / "b",
        "-o",
        tmp_path / "out",
        *WEIGHT,
        *both,
        *SIZE,
        "--heal",
        "20",
        "--dry-run",
    )
    assert "healing: 4 trainings of 20 steps of 64 samples each" in cli(*flags, "--dry-run")[1]
    assert "healing: 1 trainings of 20 steps" in cli(*flags, "--dry-run", "--no-heal-compare")[1]


def test_tasks_are_learned_together(cli, root, both, tmp_path):
    """Made-up text has no labels: there the models are asked, beside the loss of the text that has."""
    few = ("--steps", "2", "--set", "learned.batch=4", *SIZE)
    for name, tasks, loss in (("labels", both, "task"), ("some", (*both[:2], "--task", "made=synthetic"), "auto")):
        code, out, _ = cli(
            "merge", root / "a", root / "b", "-o", tmp_path / name, "--method", "learned", *tasks, *few, "--json"
        )
        assert code == 0
        report = json.loads(out)
        assert report["learning"]["options"]["loss"] == loss
        assert list(report["scores"]["rows"][0]["tasks"]) == (["words", "digits"] if name == "labels" else ["words"])


def test_tasks_of_two_kinds_have_curves_beside_each_other(cli, root, both, tmp_path):
    """A loss with labels and a divergence without have no metric in common; pictures and page show the losses."""
    tasks, out = (*both[:2], "--task", "made=synthetic"), tmp_path / "out"
    few = ("--samples", "4", "--length", "8", "--device", "cpu", "--points", "3")
    assert cli("barrier", root / "a", root / "b", *tasks, *few, "-o", out)[0] == 0
    made = json.loads((out / "barrier.json").read_text())["tasks"]["made"]["points"]
    assert made[0]["loss"] == pytest.approx(0, abs=1e-5) != made[1]["loss"]
    assert "made: " in (out / "report.html").read_text()


def test_what_cannot_be_is_refused(cli, root, both, tmp_path):
    text = f"text:{root / 'words.txt'}"
    merge = ("merge", root / "a", root / "b", "-o", tmp_path / "out", *WEIGHT)
    for arguments, says in {
        ("eval", root / "a", "--task", text, "--task", f"x={text}"): "--task is given without a name",
        ("eval", root / "a", "--task", f"x={text}", "--task", f"x={text}"): "--task x is given twice",
        ("eval", root / "a", *both, "--task-weight", "z=2"): "weights.z is no task",
        ("eval", root / "a", *both, "--task-weight", "words=0"): "out of range",
        ("eval", root / "a", "--task", f"x={text}", "--task", "made=synthetic"): "nothing to measure against",
        (*merge, "--share", "best"): "share best needs a task",
        (*merge, "--share", "bset"): "share has the wrong type",
        (*merge, "--heal", "5"): "heal needs a task",
        (*merge, "--heal", "5", "--task", "synthetic", "--samples", "8"): "nothing to train the average on",
        (*merge, "--heal-rate", "0.1", "--task", text): "heal.steps is missing",
    }.items():
        code, out, err = cli(*arguments)
        assert (code, out) == (2, ""), arguments
        assert says in err
        assert "next step" in err
    assert not (tmp_path / "out").exists()
