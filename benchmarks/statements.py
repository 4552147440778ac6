"""Statements of the source, docstrings excluded: `python benchmarks/statements.py [FOLDER] [--json]`.

Lines depend on how code is laid out; statements (nodes of class ast.stmt) do not.  One row a package, then the total.
"""

import argparse
import ast
import json
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "onebasin"
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def statements(text: str) -> int:
    nodes = list(ast.walk(ast.parse(text)))
    docstrings = sum(isinstance(x, DOCUMENTED) and ast.get_docstring(x, clean=False) is not None for x in nodes)
    return sum(isinstance(x, ast.stmt) for x in nodes) - docstrings


def by_package(folder: Path) -> dict[str, int]:
    found: Counter[str] = Counter()
    for file in sorted(folder.rglob("*.py")):
        found[".".join([folder.name, *file.parent.relative_to(folder).parts])] += statements(file.read_text("utf-8"))
    return {**found, "total": found.total()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=SOURCE)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    counts = by_package(given.folder.resolve())
    print(json.dumps(counts) if given.json else "\n".join(f"{count:>7,}  {name}" for name, count in counts.items()))
