"""Programs that are told to end while they work: nothing half done is left, and nothing is promised that is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from helpers.classes import some
from helpers.random_models import byte_llama


def ended(how: signal.Signals, *arguments: object, times: int = 1, wrapped: tuple[str, ...] = ()) -> tuple[int, str]:
    """Exit code and stderr of a program that got a signal where it says "here"."""
    command = [*wrapped, sys.executable, "-m", "helpers.disturbed", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as program:
        assert any(line == "here\n" for line in program.stdout), program.stderr.read()
        for _ in range(times):
            program.send_signal(how)
        _, said = program.communicate(timeout=100)
    return program.returncode, said


@pytest.mark.parametrize(("how", "times"), some([(signal.SIGHUP, 2), (signal.SIGTERM, 1)], 0))
def test_a_signal_while_writing_leaves_nothing(tmp_path, how, times):
    """A terminal that closes sends SIGHUP more than once."""
    models = [byte_llama(tmp_path / name, i) for i, name in enumerate("ab")]
    code, said = ended(
        how, "writing", "merge", *models, "-o", tmp_path / "out", "--method", "weight", "--quiet", times=times
    )
    assert (code, said) == (130, "onebasin: interrupted; nothing unfinished is left behind\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_the_demo_promises_no_state_where_it_keeps_none(tmp_path):
    code, said = ended(signal.SIGTERM, "demo", "demo", "--quick", "-o", tmp_path / "out", "--quiet")
    assert code == 130
    assert "Learning was stopped by SIGTERM after step 2" in said
    assert "nothing is kept" in said
    assert "begin anew" in said
    assert "--resume" not in said
    assert "state is kept" not in said
    assert list(tmp_path.iterdir()) == []
