"""Outputs that cannot be are refused before any work."""

import os
import shutil
from collections import namedtuple

from helpers.writing import CONFIG, UNMADE, assert_same_tensors, never, planned, refusal, sample
from onebasin.checkpoint import (
    Planned,
    Store,
    check_output,
    write_folder,
)


def test_output_not_empty(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("kept")
    assert "not empty" in str(refusal(tmp_path / "out", UNMADE))


def test_output_is_a_file(tmp_path):
    (tmp_path / "out").write_text("kept")
    assert "is a file" in str(refusal(tmp_path / "out", UNMADE))
    assert (tmp_path / "out").read_text() == "kept"


def test_parent_missing(tmp_path):
    error = refusal(tmp_path / "none" / "out", UNMADE)
    assert error.next_step.endswith(f"mkdir -p {tmp_path / 'none'}")


def test_parent_is_a_file(tmp_path):
    (tmp_path / "none").write_text("kept")
    assert "is not a folder" in str(refusal(tmp_path / "none" / "out", UNMADE))


def test_parent_read_only(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # permissions do not bind root
    assert "cannot be written to" in str(refusal(tmp_path / "out", UNMADE))


def test_not_enough_disk(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 10**12 - 10**9, 10**9))
    check_output(tmp_path / "out", 9 * 10**8)
    error = refusal(tmp_path / "out", [Planned("w", (10**9,), "BF16", never)])
    assert error.expected == "2.03 GB free"
    assert error.found == "1.00 GB"


def test_shard_size_not_a_size(tmp_path):
    assert "5 parsecs" in str(refusal(tmp_path / "out", UNMADE, max_shard_size="5 parsecs"))


def test_empty_folder_and_relative_path_are_fine(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    write_folder(type(tmp_path)("out"), planned(sample()), config=CONFIG, carry_from=None)
    assert_same_tensors(Store.open(tmp_path / "out"), sample())
