"""`onebasin reproduce`: from nothing to a table, again from what is there, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from helpers.reproducing import GROUP, SMALL, plan
from onebasin.errors import Stopped
from onebasin.reproduce import data, registry, running, workers
from onebasin.reproduce.pausing import Clock
from onebasin.reproduce.plan import BUDGETS
from onebasin.reproduce.training import SideBySide


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(data, "DRAWN", {"train": 40, "test": 20})
    monkeypatch.setattr(registry, "ENTRIES", {"small": SMALL})


def made(cli, out, *more):
    code, text, err = cli("reproduce", "small", "-o", out, "--quiet", "--device", "cpu", *more)
    assert code == 0, err
    return text, json.loads((out / "small.json").read_text())


def test_a_table_with_the_published_numbers_beside_ours(cli, tmp_path):
    text, report = made(cli, tmp_path / "out", "--seeds", 2)
    assert (report["measured"], report["of"], report["failed"]) == (4, 4, {})
    vanilla, weight = report["table"]
    assert (vanilla["published"], weight["published"], weight["where"]) == (None, "0.36 ± 0.01", "nowhere")
    for line in (vanilla, weight):
        assert line["pairs"] == 2
        for path in ("circuit", "factor"):
            each = [row["paths"][path]["barrier"] for row in report["rows"].values() if row["label"] == line["label"]]
            assert line["paths"][path]["barrier"]["each"] == each
    table = (tmp_path / "out" / "small.md").read_text()
    assert f"| {GROUP} | weight | 0.36 ± 0.01 |" in table
    assert "0.36 ± 0.01" in text
    assert "<svg" in (tmp_path / "out" / "small.svg").read_text()
    ends = {tuple(row["models"]): row["paths"]["factor"]["ends"] for row in report["rows"].values()}
    assert len(ends) == 2
    assert ends["small-0", "small-1"] != ends["small-2", "small-3"]


def test_what_is_there_is_used_again_and_other_settings_are_made_anew(cli, tmp_path, monkeypatch):
    out = tmp_path / "out"
    _, first = made(cli, out, "--seeds", 1)
    done = []
    real = workers.measure_row, running.train
    monkeypatch.setattr(workers, "measure_row", lambda row, *more: done.append(row.label) or real[0](row, *more))
    monkeypatch.setattr(running, "train", lambda models, *more: done.append(len(models)) or real[1](models, *more))
    assert made(cli, out, "--seeds", 1)[1]["table"] == first["table"]
    assert done == []
    (out / "rows" / "drawings_weight_small-0_small-1.json").write_text("{ half a fi")
    made(cli, out, "--seeds", 1)
    assert done == ["weight"]
    longer = replace(SMALL, plan=lambda budget, seeds: plan(budget, seeds, steps=4))
    monkeypatch.setattr(registry, "ENTRIES", {"small": longer})
    made(cli, out, "--seeds", 1)
    assert done == ["weight", 2, "vanilla", "weight"]  # other models, so all rows anew


@pytest.mark.parametrize("signal", [KeyboardInterrupt(), Stopped("Learning was stopped by SIGTERM")])
def test_a_run_that_is_stopped_leaves_a_whole_report_and_goes_on(cli, tmp_path, monkeypatch, signal):
    out, real = tmp_path / "out", workers.measure_row

    def stopped(row, *more):
        if row.label == "weight":
            raise signal
        return real(row, *more)

    monkeypatch.setattr(workers, "measure_row", stopped)
    assert cli("reproduce", "small", "-o", out, "--seeds", 1, "--quiet", "--device", "cpu")[0] == 130
    report = json.loads((out / "small.json").read_text())
    assert (report["measured"], report["of"]) == (1, 2)
    assert "not measured yet" in (out / "small.md").read_text()
    assert cli("reproduce", "small", "-o", out, "--seeds", 1, "--quiet", "--device", "cpu")[0] == 130
    assert json.loads((out / "small.json").read_text())["measured"] == 1  # what was there is not forgotten
    monkeypatch.setattr(workers, "measure_row", real)
    assert made(cli, out, "--seeds", 1)[1]["measured"] == 2


def test_a_run_with_a_time_to_end_at_keeps_what_is_done_and_goes_on(cli, tmp_path, monkeypatch):
    out, left = tmp_path / "out", Clock.left
    monkeypatch.setattr(Clock, "left", lambda self: 0.0 if (out / "rows").exists() else left(self))
    text, report = made(cli, out, "--seeds", 1, "--limit-minutes", 5)
    assert (report["measured"], report["of"], report["failed"]) == (1, 2, {})
    assert "1 of 2 rows are measured; the same command goes on" in text
    monkeypatch.setattr(Clock, "left", left)
    assert made(cli, out, "--seeds", 1)[1]["measured"] == 2


def test_training_that_is_half_done_goes_on_where_it_was(cli, tmp_path, monkeypatch):
    longer = replace(SMALL, plan=lambda budget, seeds: plan(budget, seeds, steps=60))
    monkeypatch.setattr(registry, "ENTRIES", {"small": longer})
    _, whole = made(cli, tmp_path / "whole", "--seeds", 1)
    out, left = tmp_path / "out", iter([None, None, 0.0])  # before training, after its first step, after its 51st
    monkeypatch.setattr(Clock, "left", lambda self: next(left, None))
    _, report = made(cli, out, "--seeds", 1, "--limit-minutes", 5)
    assert report["measured"] == 0
    assert [file.name for file in (out / "paused").iterdir()] == ["small-0.safetensors"]
    assert not list((out / "models").iterdir())
    real, steps = SideBySide.backward, []
    monkeypatch.setattr(SideBySide, "backward", lambda *given: steps.append(1) or real(*given))
    _, report = made(cli, out, "--seeds", 1)
    assert len(steps) == 60 - 51
    assert not list((out / "paused").iterdir())
    assert [line["paths"] for line in report["table"]] == [line["paths"] for line in whole["table"]]


def test_data_that_are_not_there_are_asked_for_before_any_work(cli, tmp_path):
    code, _, err = cli("reproduce", "small", "--budget", "paper", "-o", tmp_path / "out", "--data", tmp_path)
    assert code == 2
    assert "cifar10_jpeg.npz or cifar10_train.npz" in err
    assert not (tmp_path / "out").exists()


def test_a_place_that_holds_other_things_is_left_alone(cli, tmp_path):
    (tmp_path / "note.txt").write_text("mine")
    for out in (tmp_path, tmp_path / "note.txt"):
        code, _, err = cli("reproduce", "small", "-o", out)
        assert code == 2
        assert "holds other things" in err
    assert [file.name for file in tmp_path.iterdir()] == ["note.txt"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["none", "-o", "x"], "small"),
        (["small", "-o", "x", "--budget", "huge"], "tiny, small, paper"),
        (["small"], "-o OUT"),
        ([], "-o OUT"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(cli, words, named):
    code, _, err = cli("reproduce", *words)
    assert code == 2
    assert named in err


def test_the_list(cli, monkeypatch):
    monkeypatch.undo()
    code, out, _ = cli("reproduce", "--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:-1]] == list(registry.ENTRIES)
    assert all(float(line.split()[-1]) > 0 for line in out.splitlines()[1:-1])  # minutes


def test_every_entry_has_a_plan_for_every_budget(monkeypatch):
    monkeypatch.undo()
    for entry in registry.ENTRIES.values():
        for budget in BUDGETS:
            found = entry.plan(budget, 3)
            names = [member.name for training in found.trainings for member in training.members]
            assert len(set(names)) == len(names)
            assert {name for row in found.rows for name in row.models} <= set(names)
            assert len({row.key for row in found.rows}) == len(found.rows)
            if budget == "tiny":
                assert {training.data for training in found.trainings} <= {"shapes", "python", "python-gaps"}
        shown = {(row.group, row.label.partition(" @ ")[0]) for budget in BUDGETS for row in entry.plan(budget, 3).rows}
        assert set(entry.published) <= shown
