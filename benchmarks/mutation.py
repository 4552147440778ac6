"""How many small changes of the code the tests notice: one sample of `tests/mutants.py`, and what survived.

Tests are chosen by the lines that they reach, for which the whole suite runs ahead where the source has changed; a
mutant meets them for `BUDGET` seconds of a processor.  The sample was drawn before anybody had looked at it.
`LOOKED_AT` says what became of the survivors of its first run; "killed since" counts those as killed that a test kills
now, each of them tried again with that test.
"""

import importlib
import os
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
NEEDS = (TESTS / "mutants.py",)
SAMPLE, SEED, BUDGET = 60, 1212, 60.0
WORKERS = os.cpu_count() or 1
LOOKED_AT: dict[str, str] = {}


def measure() -> dict[str, Any]:
    sys.path.insert(0, str(TESTS))
    mutants = importlib.import_module("mutants")
    chosen = mutants.sample(sorted(mutants.PACKAGE.rglob("*.py")), SAMPLE, SEED)
    return summary(mutants.run(chosen, WORKERS, BUDGET))


def summary(fates: dict[Any, str]) -> dict[str, Any]:
    """Of what became of every mutant."""
    outcomes = list(fates.values())
    survivors = [mutant.name for mutant, fate in fates.items() if fate == "survived"]
    return {
        "mutants": len(fates), "modules": len({mutant.file for mutant in fates}), "seed": SEED,
        **{fate: outcomes.count(fate) for fate in ("killed", "timed out", "survived")},
        "share killed": round(1 - len(survivors) / max(len(fates), 1), 3),
        "share killed since": round(1 - sum(name not in LOOKED_AT for name in survivors) / max(len(fates), 1), 3),
        "survivors": {name: LOOKED_AT.get(name, "survives") for name in survivors},
    }  # fmt: skip
