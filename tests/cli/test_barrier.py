"""`onebasin barrier`: what it prints and writes, and what it refuses before it has done anything."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import torch

from helpers.random_models import byte_llama, rope
from onebasin import Checkpoint, __version__
from onebasin.checkpoint.stock import stock_model
from onebasin.landscape import evaluate, measure
from onebasin.paths import CircuitPath, FactorPath
from onebasin.tasks import load_task

FEW = ("--task", "builtin:python", "--samples", "4", "--points", "3", "--device", "cpu")


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("pair")
    return byte_llama(root / "a", 0), byte_llama(root / "b", 1)


@pytest.fixture
def run(cli):
    return partial(cli, "barrier")


def test_a_table_and_the_barrier(run, pair):
    code, out, err = run(*pair, *FEW)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == [
        "λ",
        "(share",
        "of",
        "B)",
        "loss",
        "±",
        "s.e.",
        "accuracy",
        "perplexity",
        "bits",
        "per",
        "byte",
    ]
    assert [line.split()[0] for line in lines[1:4]] == ["0", "0.5", "1"]
    a, b = (Checkpoint.open(folder) for folder in pair)
    curve = measure(FactorPath(a, b), load_task("builtin:python", a, samples=4), 3)
    assert curve.barrier == 0  # random models: their average is better than they are
    assert lines[4].startswith("no barrier (end points")
    first, last = curve.vertices
    assert f"end points {first.loss:.4f} and {last.loss:.4f}; factor path, 3 points" in lines[4]
    assert lines[5] == "builtin:python:test, split test, 4 samples"


def test_json_and_files_hold_all_that_was_measured(run, pair, tmp_path):
    code, out, _ = run(*pair, *FEW, "--path", "circuit", "--length", "8", "--json", "-o", tmp_path / "out")
    printed, written = json.loads(out), json.loads((tmp_path / "out" / "barrier.json").read_text())
    assert code == 0
    assert written == {"onebasin": __version__, **printed}
    assert (printed["a"], printed["b"], printed["path"]) == ("a", "b", "circuit")
    assert printed["shares"] == [0, 0.5, 1]
    assert {k: printed["task"][k] for k in ("split", "samples", "length")} == {
        "split": "test",
        "samples": 4,
        "length": 8,
    }
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "barrier.json",
        "barrier.svg",
        "recipe.yaml",
        "report.html",
    ]
    assert "a to b, circuit path" in (tmp_path / "out" / "barrier.svg").read_text()
    a, b = (Checkpoint.open(folder) for folder in pair)
    curve = measure(CircuitPath(a, b), load_task("builtin:python", a, samples=4, length=8), 3)
    assert printed["barrier"]["loss"] == pytest.approx(curve.barrier, abs=1e-6)
    assert str(tmp_path) not in out


def test_a_model_has_no_barrier_to_itself(run, pair):
    _, out, _ = run(pair[0], pair[0], *FEW, "--json")
    assert json.loads(out)["barrier"]["loss"] < 1e-6
    _, out, _ = run(*pair, *FEW, "--json")
    assert json.loads(out)["ends"]["a"]["loss"] != json.loads(out)["ends"]["b"]["loss"]


@pytest.mark.parametrize("smaller_first", [True, False])
def test_between_unequal_sizes_the_smaller_is_widened(run, pair, tmp_path, smaller_first):
    wide = byte_llama(tmp_path / "wide", 2, intermediate_size=33, head_dim=8)
    code, out, err = run(*((pair[0], wide) if smaller_first else (wide, pair[0])), *FEW, "--json")
    assert (code, "widened first, exactly" in err) == (0, True)
    ends, own = json.loads(out)["ends"], Checkpoint.open(pair[0])
    alone = evaluate(stock_model(own, torch.float32), load_task("builtin:python", own, samples=4)).loss
    assert ends["a" if smaller_first else "b"]["loss"] == pytest.approx(alone, abs=1e-5)


BAD = {
    "another rope": (
        lambda t: [byte_llama(t / "x", 0, **rope(77.0))],
        ["rope differs"],
    ),
    "path": (lambda t: [None, "--path", "scenic"], ["path has no such choice", "expected: factor, circuit"]),
    "device": (lambda t: [None, "--device", "abacus"], ["device has no such choice", "found: abacus"]),
    "task": (lambda t: [None, "--task", "poetry"], ["no known form", "builtin:shapes"]),
    "wrong head": (lambda t: [None, "--task", "builtin:shapes"], ["does not read images"]),
    "length": (lambda t: [None, "--length", "33"], ["expected: 1 to 32", "found: 33"]),
    "samples": (lambda t: [None, "--samples", "0"], ["cannot give that many samples"]),
    "points": (lambda t: [None, "--points", "1"], ["points is out of range", "expected: from 2 to 1000", "found: 1"]),
    "full folder": (lambda t: [None, "-o", full(t / "full")], ["is not empty"]),
}


def full(folder: Path) -> Path:
    folder.mkdir()
    (folder / "precious").write_text("x")
    return folder


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_and_nothing_written(run, pair, tmp_path, case):
    make, says = BAD[case]
    other, *options = make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    out = () if "-o" in options else ("-o", tmp_path / "out")
    few = FEW[2:] if "--task" in options else FEW
    code, printed, err = run(pair[0], other or pair[1], *few, *out, *options)
    assert (code, printed) == (2, "")
    assert err.startswith("onebasin: ")
    assert [piece for piece in (*says, "next step:") if piece not in err] == []
    assert sorted(tmp_path.rglob("*")) == before


def test_an_interrupted_run_leaves_nothing(run, pair, tmp_path, monkeypatch):
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("onebasin.recipes.running.plot", stop)
    code, _, _ = run(*pair, *FEW, "-o", tmp_path / "out")
    assert code == 130
    assert list(tmp_path.iterdir()) == []


def test_the_task_must_be_given(run, pair):
    code, _, err = run(*pair)
    assert code == 2
    assert "--task" in err


@pytest.mark.parametrize("many", [False, True])
def test_a_barrier_is_printed_with_its_error_and_place(capsys, many):
    from onebasin.cli.results import print_measured

    points = [{"loss": x, "standard_error": 0.1, "samples": 4, "metrics": {}} for x in (1.0, 2.5, 1.0)]
    where = {"shares": [0.5, 0.5, 0.0]} if many else {"share": 0.5}
    corners = {"vertices": points} if many else {"ends": {"a": points[0], "b": points[2]}}
    shares = [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]] if many else [0, 0.5, 1]
    print_measured({"shares": shares, "points": points, "path": "factor", "task": {"name": "t"}, **corners,
                    "barrier": {"loss": 1.5, "standard_error": 0.1, **where}})  # fmt: skip
    place = "0.5 0.5 0" if many else "0.5"
    assert f"barrier 1.5000 ± 0.1000 at λ = {place} (end points" in capsys.readouterr().out
