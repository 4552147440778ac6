"""Where results are sent: terminals without some characters, disks without room, pipes that nobody reads."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import pytest

from onebasin.cli import main
from onebasin.cli.output import console

FULL = Path("/dev/full")


def left(*words: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main([str(word) for word in words])
    return int(caught.value.code or 0)


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
def test_characters_that_a_terminal_lacks(pristine, monkeypatch, encoding):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    assert left("inspect", pristine / "a") == 0
    shown = {"ascii": r"3 \xd7 3", "latin-1": "3 × 3", "utf-8": "3 × 3"}[encoding]
    assert shown in written.getvalue().decode(encoding)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no disk that is always full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_is_no_bug(pristine, monkeypatch, capsys, options):
    full = FULL.open("w")
    with monkeypatch.context() as change:
        change.setattr(sys, "stdout", full)
        assert left("inspect", pristine / "a", *options) == 2
    console._buffer.clear()  # rich keeps what it could not write
    with contextlib.suppress(OSError):
        full.close()
    said = capsys.readouterr().err
    assert "No space left" in said
    assert "next step: free some space" in said
    assert "Traceback" not in said


class Closed(io.StringIO):
    """A pipe whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_pipe_that_nobody_reads_ends_quietly(pristine, monkeypatch, capsys):
    with monkeypatch.context() as change:
        change.setattr(sys, "stdout", Closed())
        change.setattr(sys, "stderr", sys.stderr)  # typer replaces both
        assert left("inspect", pristine / "a", "--json") == 141
    assert "Traceback" not in capsys.readouterr().err
