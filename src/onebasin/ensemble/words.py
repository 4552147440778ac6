"""What models and results are called, everywhere alike.  Free of torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from onebasin.errors import one_line
from onebasin.names import as_path


def letter(i: int) -> str:
    """A, B, C, ...: what the i-th model is called; numbers when the letters are used up."""
    return chr(ord("A") + i) if i < 26 else str(i + 1)


def name_of(source: str) -> str:
    """A Hub id as it is; of a local folder only its own name, never where it lies."""
    folder = as_path(source)
    return one_line(folder.resolve().name if folder.is_dir() else source)


def join_words(words: Sequence[str]) -> str:
    """One, two and three."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def describe_gauge(reason: str | None) -> str:
    """In which gauge the result is written; `reason` is why that is not the reference's."""
    return "the reference's" if reason is None else f"canonical, all models: {reason}"


def _number(value: float | None, form: str) -> str:
    """One that is not finite has no word in JSON and comes back from there as None."""
    return "not finite" if value is None or not math.isfinite(value) else format(value, form)


def difference(value: float | None) -> str:
    """A largest difference."""
    return _number(value, ".1e" if value and abs(value) < 1 else ".3g")


def describe_drift(drift: Mapping[str, float]) -> str:
    """How far outputs moved, by dtype."""
    return ", ".join(f"{difference(value)} in {kind}" for kind, value in drift.items())


def describe_written(found: Mapping[str, Any]) -> str:
    """What rounding does to a file."""
    drift, largest = difference(found["drift"]), _number(found["largest_output"], ".3g")
    return f"rounding to {found['dtype']} moves outputs by up to {drift}, where the largest is {largest}"


def html_table(text: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A text and a table below it, for notebooks."""
    cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "<br>".join(escape(line) for line in text.splitlines())
    return f"<p>{lines}</p><table><thead><tr>{names}</tr></thead><tbody>{cells}</tbody></table>"
