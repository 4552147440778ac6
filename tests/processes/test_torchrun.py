"""`torchrun -m onebasin`: several processes share learning, one of them speaks and writes, and all end together."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from helpers.folders import certificate

LEARN = (
    "--method", "learned", "--task", "text:words.txt", "--length", "8", "--steps", "6", "--set", "learned.batch=8",
    "--start", "activation", "--set", "learned.eval_every=3", "--set", "learned.log_every=1", "--device", "cpu",
)  # fmt: skip


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    (tmp_path / "words.txt").write_text("the cat sat on the mat, and the dog did not. " * 60)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def torchrun(*arguments: object, module: str = "onebasin") -> subprocess.CompletedProcess[str]:
    """Two processes; torchrun looks for a free port itself."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run(
        [*command, "-m", "--", module, *map(str, arguments)], capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_two_processes_write_what_one_does(cli, models, place):
    """To rounding; with half of the batch the result is another.  A recipe without learning is done by one of them."""
    assert cli("merge", *models, "-o", "merged", "--method", "weight", "--device", "cpu")[0] == 0
    assert cli("align", *models, "-o", "alone", *LEARN)[0] == 0
    assert cli("align", *models, "-o", "half", *LEARN, "--set", "learned.batch=4")[0] == 0
    done = torchrun(
        "two commands", "run", "merged/recipe.yaml", "-o", "merged-again",
        "and then", "align", *models, "-o", "together", *LEARN, module="helpers.disturbed",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("written to merged-again") == 1
    assert done.stdout.count("written to together") == 1
    assert done.stderr.count("validation at step 3") == 1
    assert names(place) == ["alone", "half", "merged", "merged-again", "together", "words.txt"]
    assert len({(place / name / "model.safetensors").read_bytes() for name in ("merged", "merged-again")}) == 1
    alone, together, half = (load_file(place / name / "model.safetensors") for name in ("alone", "together", "half"))
    assert max((together[name] - alone[name]).abs().max() for name in alone) < 1e-5
    assert max((half[name] - alone[name]).abs().max() for name in alone) > 1e-3
    one, two = (certificate(place / name)["learning"] for name in ("alone", "together"))
    assert two["about"]["processes"] == 2
    assert [p["train_loss"] for p in two["history"][1:]] == pytest.approx([p["train_loss"] for p in one["history"][1:]])


def test_a_process_that_fails_ends_all(models, place):
    done = torchrun("second fails in a step", "align", *models, "-o", "out", *LEARN, module="helpers.disturbed")
    assert done.returncode != 0
    assert "the second process has a bug" in done.stderr
    assert "onebasin: Another process of this run has ended" in done.stderr
    assert not (place / "out").exists()
    assert not list(place.glob(".out*"))


def test_a_process_that_cannot_begin_stops_all_and_the_first_says_why(models, place):
    done = torchrun("second fails in checks", "merge", *models, "-o", "out", *LEARN, module="helpers.disturbed")
    assert done.returncode != 0
    assert done.stderr.count("Process 1 of this run cannot go on: the second process has no data") == 1
    assert done.stderr.count("onebasin: ") == 1
    assert "exitcode  : 2" in done.stderr
    assert names(place) == ["words.txt"]
