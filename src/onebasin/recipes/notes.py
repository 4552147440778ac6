"""The warnings of a run: kept for the certificate, and shown."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

HERE = Path(__file__).parents[1]


@contextmanager
def keep_warnings(say: Callable[[str], None] | None = None) -> Iterator[list[str]]:
    """While open, keep the package's own warnings, each once, and hand them to `say`, or to Python as usual."""
    notes: list[str] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=UserWarning, module="onebasin")
        show = warnings.showwarning

        def note(
            message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
            line: str | None = None,
        ) -> None:  # fmt: skip
            own = category is UserWarning and Path(filename).is_relative_to(HERE)
            if own and str(message) in notes:
                return
            if own:
                notes.append(str(message))
            if own and say:
                say(str(message))
            else:
                show(message, category, filename, lineno, file, line)

        warnings.showwarning = note
        yield notes
