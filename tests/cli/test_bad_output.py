"""Bad outputs are refused before work begins."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

from helpers.folders import contents
from onebasin.checkpoint import output
from onebasin.ensemble import memory


def refused_output(cli, out: Path, *says: str) -> None:
    before = contents(out.parent), sorted(out.parent.rglob("*"))
    code, printed, err = cli("demo", "-o", out)
    assert (code, printed) == (2, "")
    assert err.startswith("onebasin: ")
    assert "Traceback" not in err
    assert [piece for piece in (*says, "next step:") if piece not in err] == []
    assert (contents(out.parent), sorted(out.parent.rglob("*"))) == before


def test_a_file_as_output(cli, tmp_path):
    (tmp_path / "out").write_text("")
    refused_output(cli, tmp_path / "out", "is a file")


def test_an_output_folder_that_is_not_empty(cli, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("x")
    refused_output(cli, tmp_path / "out", "is not empty", "expected: a new or empty folder")


def test_a_read_only_target(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(output.os, "access", lambda path, mode: False)
    refused_output(cli, tmp_path / "out", "cannot be written to")


def test_not_enough_disk(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(output.shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    refused_output(cli, tmp_path / "out", "not enough disk space", "expected:", "found: 0.00 GB")


def test_output_below_a_folder_that_is_not_there(cli, tmp_path):
    code, printed, err = cli("demo", "-o", tmp_path / "no" / "out")
    assert (code, printed) == (2, "")
    assert "mkdir -p" in err
    assert list(tmp_path.iterdir()) == []


def test_a_mount_point(cli, tmp_path, monkeypatch):
    """A folder can be put beside it, but not in its place: that fails only when all work is done."""
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "out")
    refused_output(cli, tmp_path / "out", "is a mount point", f"next step: give a folder inside it: {tmp_path}/out/")


def test_not_enough_memory(cli, pristine, tmp_path, monkeypatch):
    """inspect, a dry run and a run have one estimate; what does not fit is refused before any work."""
    pair = pristine / "a", pristine / "b"
    arguments = ("merge", *pair, "--method", "weight", "-o", tmp_path / "out")
    plan = json.loads(cli(*arguments, "--dry-run", "--json")[1])
    assert plan["memory"] == json.loads(cli("inspect", *pair, "--json")[1])["a"]["memory"]["align"]
    monkeypatch.setattr(memory, "memory_here", lambda: plan["memory"] - 1)
    says = f"aligning takes about {plan['memory'] / 1e9:.1f} GB of memory, and"
    for flags in ((), ("--dry-run",)):
        code, _, err = cli(*arguments, *flags)
        assert code == 2
        assert says in err
    assert f"not ready: {says}" in cli("inspect", *pair)[1]
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(memory, "memory_here", lambda: plan["memory"])
    assert cli(*arguments, "--dry-run")[0] == 0
