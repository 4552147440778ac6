"""A command looks at its models once: every pair is checked once, and every model made canonical once."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

import pytest

from helpers.classes import in_turn
from onebasin import Checkpoint
from onebasin.canonical import form
from onebasin.ensemble import ensemble
from onebasin.verification import verify as verify  # it makes models canonical, too

SHORT = ("--steps", "2", "--set", "learned.batch=4", "--set", "learned.eval_every=1")
INPUTS = ("--task", "synthetic", "--samples", "20", "--length", "6")
METHODS = {
    "weight": ("--set", "weight.sweeps=2"),
    "activation": INPUTS,
    "learned": (*INPUTS, *SHORT),
    "auto": (*INPUTS, *SHORT),
}


@pytest.fixture
def calls(monkeypatch) -> Counter[str]:
    """How often a function is called, under whatever module's name for it."""
    found: Counter[str] = Counter()

    def count(original: Callable[..., object]) -> None:
        def counted(*arguments: object, **options: object) -> object:
            found[original.__name__] += 1
            return original(*arguments, **options)

        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "onebasin" and vars(module).get(original.__name__) is original:
                monkeypatch.setattr(module, original.__name__, counted)

    count(ensemble.check_pair)
    count(form.canonicalize)
    return found


@in_turn(method=list(METHODS), count=[3, 2])
def test_models_are_checked_and_made_canonical_once(cli, models, tmp_path, calls, method, count):
    flags = ("--method", method, *METHODS[method], "--device", "cpu", "--quiet")
    rounds = ("--set", "universe.rounds=2") if count == 3 else ()
    code, _, err = cli("align", *models[:count], "-o", tmp_path / "out", *flags, *rounds)
    assert code == 0, err
    assert calls == {"check_pair": count - 1, "canonicalize": count}


def test_a_second_look_is_counted(models, calls):
    opened = [Checkpoint.open(folder) for folder in models[:3]]
    for times in (1, 2):
        ensemble.Ensemble.of(opened)
        assert calls == {"check_pair": 2 * times, "canonicalize": 3 * times}
