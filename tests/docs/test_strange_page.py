"""docs/strange-input.md: what nobody types on purpose, and what each of it says.  Made by running it."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.folders import llama
from helpers.pages import DOCS, check_part
from helpers.strange import SECTIONS, Strange
from helpers.task_files import bert, vit


@pytest.fixture(scope="module")
def originals(tmp_path_factory) -> Path:
    """Two Llamas, a model of images, one of texts."""
    root = tmp_path_factory.mktemp("originals")
    for seed, name in enumerate("AB"):
        llama(root / name, weights=seed)
    vit(root / "V")
    bert(root / "T")
    return root


@pytest.fixture
def said(cli, originals, tmp_path, monkeypatch) -> Callable[[Strange], str]:
    """What a command says that counts: of a refusal what is wrong and what to do, else its last words."""
    monkeypatch.setenv("TERM", "dumb")

    def type_in(case: Strange, number: int) -> str:
        place = Path(shutil.copytree(originals, tmp_path / str(number)))
        case.make(place)
        before = sorted(place.rglob("*"))
        with monkeypatch.context() as here:
            here.chdir(place)
            if case.patch:
                here.setattr(*case.patch)
            code, out, err = cli(*case.words)
        text = (out + err).replace(f"{place}/", "")
        assert code == case.code, f"{case.what}: {text}"
        assert case.says in text, f"{case.what}: {text}"
        assert "Traceback" not in text, case.what
        lines = text.rstrip().splitlines()
        if code:
            assert sorted(place.rglob("*")) == before, case.what
        if code and out == "":
            assert lines[0].startswith("onebasin: "), text
            assert lines[-1].startswith("  next step: "), text
            return "\n".join(map(cut, lines if case.own_words else (lines[0], lines[-1])))
        return next(line for line in lines if case.says in line) if code else case.says

    return type_in


def cut(line: str) -> str:
    return line if len(line) <= 120 else f"{line[:120]}…"


def typed(word: str) -> str:
    """A word as it is shown: a long one by its beginning."""
    word = word.replace("\0", "\\0")
    return shlex.quote(word if len(word) < 60 else f"{word[:30]}…")


@pytest.mark.page
@pytest.mark.parametrize("section", SECTIONS)
def test_all_that_is_strange_has_an_answer(said, section):
    parts = []
    for number, case in enumerate(SECTIONS[section]):
        command = " ".join(map(typed, case.words))
        parts.append(f"# {case.what}\n$ onebasin {command}\n{said(case, number)}\n")
    check_part(DOCS / "strange-input.md", f"## {section}\n\n```\n", "```\n", "\n".join(parts))
