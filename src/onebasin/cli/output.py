"""Consoles and number formats shared by the verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

console = Console(highlight=False, soft_wrap=True)
if not console.is_terminal:
    console.width = 132  # piped output is read by programs and pasted by people: no early wrapping
messages = Console(stderr=True, highlight=False)


def size(nbytes: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 1000:
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1000
    return f"{nbytes:.3g} TB"


@contextmanager
def spinner(quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A line on stderr that says what is being done; silent when stderr is not a terminal."""
    if quiet or not messages.is_terminal:
        yield lambda step: None
        return
    with messages.status("starting") as status:
        yield status.update
