"""Run the benchmarks of this folder and write results/NAME.json for each NAME.py.

    python benchmarks/run.py            every benchmark
    python benchmarks/run.py core       only this one

A benchmark is a module with `measure()`, which returns what goes into the file, and `NEEDS`, the paths it cannot do
without.  Where one of them is absent the benchmark is left out, its file is left as it is, and the exit code is 1.
With ONEBASIN_TINY set, benchmarks that know of it only try themselves out: results are printed, no file is written.
"""

import datetime
import importlib
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from _compact import RESULTS, dumps, write

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
SCRIPTS = ("run", "statements", "zoo")  # what is here besides benchmarks
# No result of theirs is committed yet.
AHEAD = ("ancestors", "blocks", "same_data", "width")
PACKAGES = ("torch", "transformers", "safetensors", "numpy", "scipy")


def surroundings(name: str) -> dict[str, Any]:
    """What a figure depends on besides the code: how it was made, with which versions, on what."""
    from onebasin import __version__

    versions = {"python": platform.python_version(), "onebasin": __version__, **{x: version(x) for x in PACKAGES}}
    return {
        "benchmark": name,
        "command": f"python benchmarks/run.py {name}",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": versions,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "load average before": round(os.getloadavg()[0], 2),
    }


def keep(name: str, results: dict[str, Any]) -> None:
    """Write what is measured so far: a run that is cut short loses nothing."""
    if not os.environ.get("ONEBASIN_TINY"):
        write(RESULTS / f"{name}.json", {**surroundings(name), "results": results})


def run(name: str) -> bool:
    """Measure one benchmark and write its file; False where something it needs is absent."""
    benchmark = importlib.import_module(name)
    absent = [os.path.relpath(path, REPOSITORY) for path in benchmark.NEEDS if not path.exists()]
    if absent:
        print(f"{name}: not measured, {', '.join(absent)} is absent; {name}.json is left as it is", file=sys.stderr)
        return False
    print(f"{name}: measuring", file=sys.stderr)
    file = RESULTS / f"{name}.json"
    result = {**surroundings(name), "results": benchmark.measure()}
    if os.environ.get("ONEBASIN_TINY"):
        print(dumps(result))
        return True
    write(file, result)
    print(f"{name}: wrote {os.path.relpath(file, REPOSITORY)}", file=sys.stderr)
    return True


def main(names: list[str]) -> None:
    every = sorted(file.stem for file in HERE.glob("[!_]*.py") if file.stem not in SCRIPTS)
    unknown = sorted(set(names) - set(every))
    if unknown:
        sys.exit(f"no benchmark {unknown[0]!r}; there are: {', '.join(every)}")
    measured = [run(name) for name in names or every]
    if not all(measured):
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
