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
SAMPLE, SEED, BUDGET = 60, 808, 60.0
WORKERS = os.cpu_count() or 1
LOOKED_AT = {
    'report/html/words.py _of_curve: barrier["loss"] <= 2 * barrier["standard_error"] → '
    "(barrier['loss'] < 2 * barrier['standard_error'])": "killed by a new test, tests/report/test_looks.py",
    "cli/demo.py demo: not json → json": "killed by a new test, tests/demo/test_demo.py",
    "checkpoint/checks.py attention_of: return \"sdpa\" if kind._supports_sdpa else \"eager\" → return None":
        "killed by a new test, tests/checkpoint/test_streamed.py",
    "reproduce/folder.py write_json: True → False": "killed by a new test, tests/reproduce/test_workers.py",
    "ensemble/work.py : 14 → 15": "killed by a new test, tests/docs/test_settings_page.py",
    "learn/course.py Run._seconds: self.before + time.perf_counter() → (self.before - time.perf_counter())":
        "killed by a new test, tests/learn/test_course.py",
}  # fmt: skip


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
