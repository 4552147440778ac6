"""How many small changes of the code the tests notice: one sample of `tests/mutants.py`, with all that survived.

It takes an hour on one core, most of it the suite itself, which runs once to note which test reaches which line.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
NEEDS = (TESTS / "mutants.py",)
SAMPLE, SEED, WORKERS, LIMIT = 80, 7, 1, 300.0


def measure() -> dict[str, Any]:
    sys.path.insert(0, str(TESTS))
    mutants = importlib.import_module("mutants")
    fates = mutants.run(mutants.sample(sorted(mutants.PACKAGE.rglob("*.py")), SAMPLE, SEED), WORKERS, LIMIT)
    outcomes = list(fates.values())
    return {
        "sample": {"mutants": len(fates), "seed": SEED, "modules": len({mutant.file for mutant in fates})},
        "share killed": round(mutants.killed(fates), 3),
        **{fate: outcomes.count(fate) for fate in ("killed", "timed out", "survived")},
        "survivors": [mutant.name for mutant, fate in fates.items() if fate == "survived"],
        "listed as computing the same": mutants.EQUIVALENT,
    }
