"""JSON that people can read: a list of numbers, a few named numbers, or whatever is short, is one line.

`python benchmarks/_compact.py FILE...` writes files again in this form; their values stay what they are.
"""

import json
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
WIDTH, FEW = 110, 5


def dumps(value: Any, indent: str = "") -> str:
    """Like json.dumps(value, indent=1), but numbers, and what fits into WIDTH characters, stay on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) <= WIDTH or not isinstance(value, dict | list | tuple) or _numbers(value):
        return line
    inner = indent + " "
    if isinstance(value, dict):
        rows = [f"{json.dumps(str(key), ensure_ascii=False)}: {dumps(x, inner)}" for key, x in value.items()]
    else:
        rows = [dumps(x, inner) for x in value]
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    lines = f",\n{inner}".join(rows)
    return f"{opened}\n{inner}{lines}\n{indent}{closed}"


def write(file: Path, value: Any) -> None:
    file.write_text(dumps(value) + "\n", encoding="utf-8")


def curve(found: dict[str, Any]) -> dict[str, Any]:
    """A curve of onebasin.landscape as columns; its task, the same for all curves of a pair, is left to the caller."""
    return {"shares": found["shares"], **columns(found["points"]), "barrier": found["barrier"]}


def columns(points: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """One list a quantity instead of one dictionary a point; metrics stand beside the loss."""
    flat = [{**point, **point["metrics"]} for point in points]
    return {name: [point[name] for point in flat] for name in flat[0] if name not in ("metrics", "samples")}


def _numbers(value: dict[str, Any] | list[Any] | tuple[Any, ...]) -> bool:
    """Any list of numbers, or up to FEW with names."""
    plain = list(value.values()) if isinstance(value, dict) else value
    return all(isinstance(x, int | float | None) for x in plain) and (plain is value or len(plain) <= FEW)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(Path(name), json.loads(Path(name).read_text(encoding="utf-8")))
