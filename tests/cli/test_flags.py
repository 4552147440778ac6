"""Every flag of the verbs arrives, each at a place of its own, and one that is not given changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
import typer

from onebasin.cli import align, recipe, watching
from onebasin.cli.app import app

COMMANDS = typer.main.get_command(app).commands
SPECIAL = {"--task-weight": "a=3", "--device": "cpu", "--budget": "small", "--task": "text"}  # others take a number
NEEDED = {
    "align": ["A", "B", "-o", "out"], "merge": ["A", "B", "-o", "out"], "barrier": ["A", "B", "--task", "t"],
    "run": ["recipe.yaml"], "eval": ["A", "--task", "t"], "reproduce": ["p1-table2", "-o", "out"],
    "verify": ["A"], "demo": [],
}  # fmt: skip


def value_of(option: Any) -> list[str]:
    """What makes a flag differ from its default."""
    name = max(option.opts, key=len)
    return [name] if option.is_flag else [name, SPECIAL.get(name, "17")]


def options(verb: str) -> list[Any]:
    return [x for x in COMMANDS[verb].params if x.param_type_name == "option" and x.name not in ("help", "listed")]


@pytest.fixture
def told(monkeypatch, tmp_path, cli) -> Callable[..., dict[str, Any]]:
    """What stands behind a verb is told, by name."""
    calls: list[Any] = []

    def keep(*given: Any, **named: Any) -> Any:
        calls.append((given, named))
        return MagicMock()

    monkeypatch.chdir(tmp_path)
    for module in (align, recipe):
        monkeypatch.setattr(module, "from_flags", keep)
        monkeypatch.setattr(module, "carry_out", keep)
    for name in ("onebasin.recipes.load", "onebasin.api.evaluate", "onebasin.reproduce.running.reproduce",
                 "onebasin.verification.verify.verify", "onebasin.demo.demonstrate",
                 "onebasin.checkpoint.Checkpoint.open", "onebasin.checkpoint.check_output"):  # fmt: skip
        monkeypatch.setattr(name, keep)
    printed = Mock(side_effect=lambda *_: calls.append(("printed", {})))
    for module in ("demo", "reproduce", "verify"):
        monkeypatch.setattr(f"onebasin.cli.{module}._print", printed)
    monkeypatch.setattr("onebasin.cli.results.print_scores", printed)
    real = watching.Watching
    for module in ("align", "recipe", "eval", "demo", "reproduce", "verify"):
        monkeypatch.setattr(f"onebasin.cli.{module}.Watching", lambda *given: keep(*given) and real(quiet=True))

    def call(*arguments: str) -> dict[str, Any]:
        calls.clear()
        cli(*arguments)
        found: dict[str, Any] = {}
        for i, (given, named) in enumerate(calls):
            found |= {f"{i} {j}": plain(x) for j, x in enumerate(given)}
            found |= {f"{i} {key}": plain(x) for key, x in named.items()}
        return found

    return call


def plain(value: Any) -> Any:
    """What can be compared and shown."""
    if is_dataclass(value):
        return repr(value)
    return value if isinstance(value, str | int | float | list | dict | Path | None) else type(value).__name__


@pytest.mark.parametrize("verb", NEEDED)
def test_every_flag_arrives_at_a_place_of_its_own(told, verb):
    base = told(verb, *NEEDED[verb])
    assert base
    places: dict[str, set[str]] = {}
    for option in options(verb):
        words = value_of(option)
        if words[0] in NEEDED[verb] or words[0] == "--out" or (verb, words[0]) == ("reproduce", "--device"):
            continue
        found = told(verb, *NEEDED[verb], *words)
        places[words[0]] = {f"{key}={found.get(key)}" for key in {*found, *base} if found.get(key) != base.get(key)}
        assert places[words[0]], words
    assert len({frozenset(x) for x in places.values()}) == len(places)
