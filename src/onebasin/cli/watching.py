"""What is seen of a run while it works: a bar on a terminal, log lines elsewhere, a log file, trackers.

One channel feeds them all: `tick` says what is being done, and the records of learning how that goes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TextIO

import typer

from onebasin import __version__
from onebasin.cli.pace import Pace
from onebasin.errors import BadOutput
from onebasin.events import Callback, Callbacks, End, Validation
from onebasin.methods.method import Tick
from onebasin.processes.ranks import rank

EVERY = 10.0  # seconds between log lines, at least

Quiet = Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="A log line on stderr for everything that is done.")]
LogFile = Annotated[Path | None, typer.Option(help="Add log lines to this file, with warnings and errors.")]
LogTo = Annotated[
    list[str] | None,
    typer.Option(help="Also follow learning in tensorboard:FOLDER or wandb:PROJECT; repeatable, needs that extra."),
]


@dataclass(frozen=True)
class Watching:
    """The options of watching, as they were given."""

    quiet: bool = False
    verbose: bool = False
    log_file: Path | None = None
    log_to: list[str] | None = None


class Watch(Callback):
    """Log lines of what is done: one every few seconds, each validation; with `verbose` every step of the work.

    `bar` is told every tick; `lines` and `file` take a line each.
    """

    def __init__(self, bar: Tick, lines: Callable[[str], None], file: Callable[[str], None], verbose: bool) -> None:
        self.bar, self.lines, self.file, self.verbose = bar, lines, file, verbose
        self._last, self._step, self._pace = time.monotonic(), "", Pace()

    def tick(self, step: str, done: float = 0, total: float = 0) -> None:
        """Something is being done, and so much of it is."""
        self.bar(step, done, total)
        left = self._pace.left(step, done, total)
        news, self._step = self.verbose and step != self._step, step
        if news or time.monotonic() - self._last >= EVERY:
            self.log(f"{step}, {left}" if left else step)

    def on_validation(self, validation: Validation) -> None:
        self.log(str(validation))

    def on_end(self, end: End) -> None:
        self.log(str(end))

    def log(self, text: str) -> None:
        """A line with the time, on stderr where lines are shown there, and in the file."""
        self._last = time.monotonic()
        self.lines(stamped(text))
        self.file(stamped(text))


@contextmanager
def watch(options: Watching) -> Iterator[tuple[Watch, Callback]]:
    """While open, a run is watched as asked for: what to tick, and who is told how learning goes.

    Warnings of the package are shown.  Of several processes only the first is watched.
    """
    from onebasin.cli.output import messages, progress
    from onebasin.events.trackers import tracker
    from onebasin.recipes.notes import keep_warnings

    if rank():
        options = Watching(quiet=True)
    told = [tracker(name) for name in options.log_to or ()]

    def line(text: str) -> None:
        messages.print(text, soft_wrap=True)

    def warn(text: str) -> None:
        watched.file(stamped(f"warning: {text}"))
        if not rank():
            line(f"onebasin: warning: {text}")

    shown = not options.quiet and (options.verbose or not messages.is_terminal)
    with ExitStack() as stack:
        file = _writer(stack.enter_context(_opened(options.log_file)) if options.log_file else None)
        file(stamped(f"onebasin {__version__}: {' '.join(sys.argv[1:])}"))
        bar = stack.enter_context(progress(options.quiet))
        watched = Watch(bar, line if shown else _nobody, file, options.verbose)
        stack.enter_context(keep_warnings(warn))
        try:
            yield watched, Callbacks([watched, *told])
        except BaseException as error:
            file(stamped(f"{type(error).__name__}: {error}"))
            raise
        file(stamped("done"))


def stamped(text: str) -> str:
    """A log line."""
    return f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}"


def _nobody(text: str) -> None:
    """Nobody reads it."""


def _opened(path: Path) -> TextIO:
    try:
        return path.open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        step = "give another --log-file, in a folder that is there"
        raise BadOutput(f"{path} cannot be written", found=error, next_step=step) from error


def _writer(file: TextIO | None) -> Callable[[str], None]:
    """Lines into a file; a disk that is full stops the log and not the run."""
    if file is None:
        return _nobody

    def write(text: str) -> None:
        try:
            file.write(f"{text}\n")
        except OSError:
            file.close()
        except ValueError:  # closed before
            return

    return write
