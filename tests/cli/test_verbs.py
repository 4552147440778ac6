"""The verbs, their options, help, version and usage errors."""

from __future__ import annotations

import runpy
import sys

import pytest
import torch
import typer

import onebasin
from onebasin.cli.app import app

WATCHED = ("--quiet", "--verbose", "-v", "--log-file")
VERBS = {
    "align": {
        "models", "--out", "-o", "--method", "--preset", "--spaces", "--task", "--task-weight", "--samples", "--length",
        "--start", "--steps", "--learn", "--universe", "--device", "--memory", "--dtype", "--max-shard-size",
        "--mergekit", "--set", "--dry-run", "--resume", "--json", *WATCHED, "--log-to", "--overwrite",
    },
    "barrier": {
        "models", "--task", "--task-weight", "--out", "-o", "--path", "--points", "--samples", "--length",
        "--batch-size", "--device", "--set", "--dry-run", "--json", *WATCHED, "--overwrite",
    },
    "demo": {"--out", "-o", "--task", "--quick", "--json", *WATCHED, "--overwrite"},
    "eval": {
        "models", "--task", "--task-weight", "--ensemble", "--samples", "--length", "--batch-size", "--device",
        "--json", *WATCHED,
    },
    "inspect": {"a", "b", "--revision", "--weights", "--json"},
    "merge": {
        "models", "--out", "-o", "--share", "--shares", "--heal", "--heal-rate", "--heal-compare", "--no-heal-compare",
        "--method", "--preset", "--spaces", "--task", "--task-weight", "--samples",
        "--length", "--start", "--steps", "--learn", "--universe", "--device", "--memory", "--dtype",
        "--max-shard-size", "--set", "--dry-run", "--resume", "--json", *WATCHED, "--log-to", "--overwrite",
    },
    "reproduce": {
        "name", "--out", "-o", "--budget", "--seeds", "--data", "--device", "--at-once", "--limit-minutes", "--list",
        "--json", *WATCHED,
    },
    "run": {"recipe", "--out", "-o", "--set", "--dry-run", "--resume", "--json", *WATCHED, "--log-to", "--overwrite"},
    "verify": {"a", "--revision", "--seed", "--json", *WATCHED},
    "widen": {"a", "--out", "-o", "--set", "--extra", "--revision", "--json", *WATCHED, "--overwrite"},
}  # fmt: skip


def test_the_verbs_and_their_options_are_these():
    """A frozen list: scripts depend on it, so a change here belongs into the changelog."""
    command = typer.main.get_command(app)
    found = {
        verb: {name for p in sub.params for name in (*p.opts, *p.secondary_opts)} - {"--help", "-h"}
        for verb, sub in command.commands.items()
    }
    assert found == VERBS
    assert {name for p in command.params for name in p.opts} - {"--install-completion", "--show-completion"} == {
        "--debug",
        "--version",
    }


def test_help_lists_the_verbs(cli):
    code, out, _ = cli("--help")
    assert code == 0
    for verb in VERBS:
        assert f"\n  {verb} " in out
    for verb, options in VERBS.items():
        code, out, _ = cli(verb, "--help")
        assert code == 0
        assert all(option in out for option in options if option.startswith("--"))


def test_version(cli):
    code, out, _ = cli("--version")
    assert code == 0
    assert out.startswith(f"onebasin {onebasin.__version__}, torch {torch.__version__.split('+')[0]}")


@pytest.mark.parametrize("arguments", [["conquer"], ["inspect"], ["verify", "--fast", "x"], ["inspect", "a", "b", "c"]])
def test_usage_errors(cli, arguments):
    code, out, err = cli(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("onebasin: ")
    assert "next step:" in err
    assert "--help lists what there is" in err


def test_a_typing_mistake_is_guessed(cli):
    assert "Did you mean 'align'?" in cli("algin", "a", "b")[2]
    assert "next step: did you mean --method? onebasin align --help" in cli("align", "a", "b", "--metod", "weight")[2]


def test_no_arguments_show_the_help(cli):
    assert cli() == cli("--help")


def test_the_package_can_be_run(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["onebasin", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("onebasin", run_name="__main__")
    assert not ended.value.code
    assert onebasin.__version__ in capsys.readouterr().out
