"""The `onebasin` command: its verbs, and what happens to errors.

Results go to stdout, everything else to stderr.  Exit codes: 0 done, 1 a promise does not hold, 2 bad input or usage,
3 a bug, 130 interrupted, 141 nobody reads the results any more.

What reaches `main` is a refusal, which says what to do next; or the system has no room left; or it is a bug, and then
it is called one.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from typing import Annotated, Any, NoReturn

import typer

from onebasin import __version__
from onebasin.cli.align import METHODS, align, barrier, merge
from onebasin.cli.demo import demo
from onebasin.cli.eval import evaluate
from onebasin.cli.inspect import inspect
from onebasin.cli.recipe import run
from onebasin.cli.reproduce import reproduce
from onebasin.cli.verify import verify
from onebasin.cli.widen import widen
from onebasin.errors import BadOutput, BrokenPromise, OnebasinError, Stopped
from onebasin.processes.ranks import rank
from onebasin.processes.signals import interruptible

BROKEN, REFUSED, BUG, INTERRUPTED, UNREAD = 1, 2, 3, 130, 141
EXIT_CODES = {Stopped: INTERRUPTED, BrokenPromise: BROKEN}
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
SHARED = ("align", "merge", "run")  # of several processes, all carry these out; only the first does the others
UsageError: Any = typer.BadParameter.__bases__[0]  # click's, wherever typer keeps it

app = typer.Typer(
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Align, interpolate and merge independently trained Transformers through the symmetries of their weights.",
)
for verb in (inspect, verify, align, barrier, merge, evaluate, widen, run, demo, reproduce):
    app.command("eval" if verb is evaluate else None, epilog=METHODS if verb in (align, merge) else None)(verb)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"onebasin {__version__}, torch {version('torch')}, transformers {version('transformers')}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show versions and exit.")
    ] = False,
) -> None:
    """Options that come before the verb."""
    if rank() and context.invoked_subcommand not in SHARED:
        raise typer.Exit


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code.

    Of several processes the first alone speaks; a bug of any other still shows its traceback.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr: a terminal may lack λ, a name be broken
    with interruptible():
        _run(arguments)


def _run(arguments: list[str]) -> None:
    try:
        code = app(args=arguments or ["--help"], prog_name="onebasin", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except UsageError as error:
        _leave(_explained(error), REFUSED)
    except OnebasinError as error:
        if "--debug" in arguments:
            traceback.print_exc()
        _leave(error, EXIT_CODES.get(type(error), REFUSED))
    except MemoryError:
        step = "use a larger machine, smaller models or less data"
        _leave(OnebasinError("The memory of this machine is used up", next_step=step), REFUSED)
    except KeyboardInterrupt:
        _leave_interrupted()
    except SystemExit as error:  # typer's way to leave when a pipe is closed
        raise SystemExit(UNREAD if isinstance(error.__context__, BrokenPipeError) else error.code) from error
    except Exception as error:  # noqa: BLE001  the one place that has to know every bug
        _leave_unwritten(error) if getattr(error, "errno", None) in DISK else _leave_bug(error)
    if code == INTERRUPTED:  # typer's translation of Ctrl-C
        _leave_interrupted()
    sys.exit(code or 0)


def _leave(message: object, code: int) -> NoReturn:
    if not rank():
        typer.echo(f"onebasin: {message}", err=True)
    sys.exit(code)


def _leave_unwritten(error: Exception) -> NoReturn:
    """A disk that is full, or stdout sent to one: OUT is whole or not there, and what was printed is lost."""
    if sys.__stdout__ is not None and sys.stdout is sys.__stdout__:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())  # Python tries again at its end
    what, step = "The system could not write what it was given", "free some space, or send stdout to another place"
    _leave(BadOutput(what, found=error, next_step=step), REFUSED)


def _leave_bug(error: Exception) -> NoReturn:
    cause = error.__cause__ if isinstance(error, typer.Abort) else error  # typer aborts at an end of file, too
    if cause is None:
        _leave_interrupted()
    traceback.print_exc()
    step = "please report it, with the command and the lines above"
    _leave(OnebasinError("This is a bug in onebasin", found=type(cause).__name__, next_step=step), BUG)


def _explained(error: Any) -> OnebasinError:
    """A command line that was not understood, in the words of all other refusals."""
    near = getattr(error, "possibilities", None)
    what = error.message if near else error.format_message()
    command = error.ctx.command_path if error.ctx else "onebasin"
    step = f"{command} --help lists what there is"
    return OnebasinError(what.rstrip("."), next_step=f"did you mean {near[0]}? {step}" if near else step)


def _leave_interrupted() -> NoReturn:
    _leave("interrupted; nothing unfinished is left behind", INTERRUPTED)
