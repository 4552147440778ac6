"""How many small changes of the code the tests notice: one sample of `tests/mutants.py`, and what survived.

Tests are chosen by their words, so that nothing runs ahead; a mutant meets them for `BUDGET` seconds of a processor.
The sample was drawn before anybody had looked at it.  `LOOKED_AT` says what became of the survivors of its first run;
"killed since" counts those as killed that a test kills now, each of them tried again with that test.
"""

import importlib
import os
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
NEEDS = (TESTS / "mutants.py",)
SAMPLE, SEED, BUDGET = 60, 202, 30.0
WORKERS = os.cpu_count() or 1
LOOKED_AT = {
    "learn/options.py LearnedMatching: 0.0 → 1.0": "killed by tests/docs/test_options_pages.py, not met in time",
    "processes/signals.py interruptible: signal.signal(x, end) → pass":
        "killed by tests/processes/test_signals.py, behind tests that need a terminal",
    "reproduce/p2_protocols.py : 768 → 769": "killed by a new test, tests/reproduce/test_parts.py",
    "cli/recipe.py carry_out.say: watched.file(stamped(text)) → pass": "killed by a new test, tests/cli/test_output.py",
    "widening/embeddings.py _stretch: 1 → 2": "killed by a new test, tests/widening/test_refusals.py",
    "match/many.py _gathered: gain > 0 → (gain >= 0)": "killed by a new test, tests/match/test_many.py",
    "linalg/orthogonal.py polar_fixing_ones: ones_complement(n, dtype=matrix.dtype, device=matrix.device) → "
    "ones_complement(n, device=matrix.device)": "killed by a new test, tests/linalg/test_linalg.py",
    "demo/demonstration.py demonstrate: time.perf_counter() - begin → (time.perf_counter() + begin)":
        "killed by a new test, tests/demo/test_demo.py",
    "cli/output.py size: nbytes < 1000 → (nbytes >= 1000)": "killed by a new test, tests/cli/test_output.py",
    "methods/activation.py Activation.to_measure_on: len(data) > PROBES → (len(data) >= PROBES)":
        "killed by a new test, tests/methods/test_runs.py",
    "methods/learned.py Learned: True → False": "killed by tests of methods and of recipes, not met in time",
    'cli/widen.py widen: wide.save( out, extra_files={"certificate.json": json_text(report)}, progress=lambda *done: '
    'watched.tick("writing", *done), overwrite=overwrite, ) → wide.save(out, extra_files={\'certificate.json\': '
    "json_text(report)}, overwrite=overwrite)": "killed by a new test, tests/cli/test_output.py",
}  # fmt: skip


def measure() -> dict[str, Any]:
    sys.path.insert(0, str(TESTS))
    mutants = importlib.import_module("mutants")
    chosen = mutants.sample(sorted(mutants.PACKAGE.rglob("*.py")), SAMPLE, SEED)
    return summary(mutants.run(chosen, WORKERS, BUDGET, named=True))


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
