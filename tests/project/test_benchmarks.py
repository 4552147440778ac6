"""The benchmarks: every result has its script, files are written as they are, and the zoo can be trained again."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys

import pytest
import torch

from helpers.pages import ROOT
from onebasin import Checkpoint

BENCHMARKS = ROOT / "benchmarks"
RESULTS = sorted((BENCHMARKS / "results").glob("*.json"))


@pytest.fixture
def script(monkeypatch):
    """A module of the folder, by name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def test_every_result_has_its_script_and_every_script_its_result(script):
    scripts = {file.stem for file in BENCHMARKS.glob("[!_]*.py")} - set(script("run").SCRIPTS)
    assert {file.stem for file in RESULTS} == scripts - set(script("run").AHEAD)
    for file in RESULTS:
        assert f"benchmarks/run.py {file.stem}" in json.loads(file.read_text())["command"]
    pictures = [file.stem for kind in ("svg", "md") for file in (BENCHMARKS / "results").glob(f"*.{kind}")]
    assert {picture.split("-")[0] for picture in pictures} <= scripts


def take(text: str) -> None:
    """Import what the text imports from the package, wherever in it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "onebasin":
            exec(compile(ast.Module([node], []), "script", "exec"), {})


@pytest.mark.parametrize("file", sorted(BENCHMARKS.glob("*.py")), ids=lambda file: file.stem)
def test_what_a_script_takes_from_the_package_is_there(file):
    """Scripts import inside functions and run for hours: a name that is gone would show late."""
    take(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("gone", ["from onebasin.match import Pair", "from onebasin.aligning import align"])
def test_a_name_that_is_gone_is_found(gone):
    with pytest.raises(ImportError):
        take(f"def measure():\n    {gone}\n")


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_a_result_is_written_as_it_lies_there(script, file):
    text = file.read_text(encoding="utf-8")
    assert script("_compact").dumps(json.loads(text)) + "\n" == text


def test_curves_and_short_things_are_one_line(script):
    dumps = script("_compact").dumps
    curve = [i / 7 for i in range(100)]
    value = {"λ": curve, 0.5: {"a": 1, "b": [None, True, 'a "quoted" word']}, "many": [{"x": "y" * 50}] * 3, "no": []}
    text = dumps(value)
    assert json.loads(text) == json.loads(json.dumps(value))
    assert [line.strip().split(":")[0] for line in text.splitlines()[1:4]] == ['"λ"', '"0.5"', '"many"']
    assert len(text.splitlines()) == 10


def test_statements_do_not_count_docstrings(script):
    text = '"""Module."""\nx = 1; y = 2\n\nclass A:\n    """Class."""\n\n    def f(self):\n        """Function."""\n'
    assert script("statements").statements(text) == 4  # two assignments, a class, a function
    assert script("statements").statements('x = 1\n"no docstring"\n') == 2


def test_the_zoo_can_be_trained_again(data, tmp_path):
    command = [sys.executable, BENCHMARKS / "zoo.py", "--tiny", "--only", "gpt2-wikitext2", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("test loss") == 2
    first, second = (Checkpoint.open(tmp_path / f"gpt2-wikitext2-{seed}") for seed in (0, 1))
    assert list(first.spec.leaves) == list(second.spec.leaves)
    assert not any(torch.equal(first[name], second[name]) for name in first.spec.leaves if name.endswith("c_fc.weight"))
