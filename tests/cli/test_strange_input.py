"""Strange input that is not on docs/strange-input.md, and what a bug looks like."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.folders import edit_config
from helpers.task_files import vit
from onebasin.cli import app


@pytest.fixture
def place(pristine, tmp_path, monkeypatch) -> Path:
    """A folder with a Llama A and a ViT V."""
    shutil.copytree(pristine / "a", tmp_path / "A")
    vit(tmp_path / "V")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def refused(cli, place) -> Callable[..., str]:
    """What a command says that ends with exit code 2, a next step, and nothing written."""

    def call(*words: str) -> str:
        before = sorted(place.rglob("*"))
        code, out, err = cli(*words)
        assert (code, out) == (2, ""), err
        assert err.startswith("onebasin: ")
        assert err.rstrip().splitlines()[-1].startswith("  next step: ")
        assert sorted(place.rglob("*")) == before
        return err

    return call


def test_preprocessing_that_is_none(refused, place):
    for rules in ({"image_mean": ["a"]}, {"image_std": 0}, {"rescale_factor": [1, 2]}, {"resample": 99}):
        (place / "V" / "preprocessor_config.json").write_text(json.dumps(rules))
        assert f"no valid {next(iter(rules))}" in refused("barrier", "V", "V", "--task", "builtin:shapes")


def test_dropout_that_is_a_word(refused, place):
    """What is said first depends on the version of transformers."""
    edit_config(place / "A", attention_dropout="much")
    assert "attention_dropout" in refused("verify", "A", "--quiet")


def stumbling(error: Exception) -> Callable[..., None]:
    def look(*models: object) -> None:
        raise error

    return look


def test_a_bug_is_called_one_and_has_its_own_exit_code(cli, place, monkeypatch):
    for error in (KeyError("odd"), EOFError(), RecursionError()):
        with monkeypatch.context() as change:
            change.setattr("onebasin.ensemble.inspection.inspect", stumbling(error))
            code, out, err = cli("inspect", "A")
        assert (code, out) == (app.BUG, "")
        assert "Traceback" in err
        what, found, step = err.splitlines()[-3:]
        assert (what, found.strip()) == ("onebasin: This is a bug in onebasin", f"found: {type(error).__name__}")
        assert "please report it" in step


def test_memory_that_is_used_up_is_no_bug(refused, monkeypatch):
    monkeypatch.setattr("onebasin.ensemble.inspection.inspect", stumbling(MemoryError()))
    assert "memory of this machine is used up" in refused("inspect", "A")
