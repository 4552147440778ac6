"""docs/cli.md, made from the command line itself; and shell completion."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest
import typer

from helpers.pages import DOCS, check_page
from onebasin.cli.app import app

INTRODUCTION = """# Command line

Results go to stdout, progress and messages to stderr. Exit codes: 0 done, 1 the answer is no (`verify` found a drift
above the promise, `inspect A B` something that blocks), 2 bad input or usage, with what to do next, 3 a bug of onebasin
itself, 130 interrupted, 141 results that nobody reads (`| head`).

`onebasin --install-completion` teaches your shell to complete verbs and options with the tab key (bash, zsh, fish,
PowerShell); `onebasin --show-completion` prints the lines instead. `onebasin --version` shows the versions of onebasin,
torch and transformers; `onebasin --debug verify A` shows the traceback of an error. `-h` is short for `--help`.
Long runs, log files and several processes: [long runs](long-runs.md).

"""


def cell(text: str) -> str:
    """One cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def shown(parameter: Any) -> str:
    """How a parameter is typed."""
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    names = ", ".join(f"`{name}`" for name in parameter.opts)
    return names if parameter.is_flag else f"{names} {parameter.metavar or parameter.name.upper().strip('_')}"


def default(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return "required" if parameter.required else ""
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    if parameter.required:
        return "required"
    return "" if parameter.default in (None, False) else str(getattr(parameter.default, "value", parameter.default))


def section(verb: str, command: Any) -> str:
    lines = [f"## {verb}", "", *(" ".join(part.split()) + "\n" for part in command.help.split("\n\n"))]
    if command.epilog:  # a heading, and names with what they mean
        heading, *named = command.epilog.removeprefix("\b\n").splitlines()
        lines += [heading, "", *("- `{}`: {}".format(*line.split(None, 1)) for line in named), ""]
    lines += ["| | default | |", "|---|---|---|"]
    for parameter in command.params:
        if parameter.name != "help":
            lines.append(f"| {shown(parameter)} | {cell(default(parameter))} | {cell(parameter.help or '')} |")
    return "\n".join(lines) + "\n"


@pytest.mark.page
def test_the_reference_of_the_command_line_is_the_command_line():
    commands = typer.main.get_command(app).commands
    check_page(DOCS / "cli.md", INTRODUCTION + "\n".join(section(*each) for each in commands.items()))


def completed(words: str) -> list[str]:
    """What bash is offered for a line."""
    asked = {"_ONEBASIN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "onebasin"], env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [("onebasin al", ["align"]), ("onebasin me", ["merge"]), ("onebasin align --meth", ["--method"]),
     ("onebasin demo --qu", ["--quick", "--quiet"]), ("onebasin zz", [])],
)  # fmt: skip
def test_the_shell_completes_verbs_and_options(words, offered):
    assert completed(words) == offered


def test_completion_can_be_installed(cli):
    code, out, _ = cli("--help")
    assert code == 0
    assert re.search(r"--install-completion", out)
