"""The `onebasin` command: its verbs, and what happens to errors.

Results go to stdout, everything else to stderr.  Exit codes: 0 done, 1 a promise does not hold, 2 bad input or usage,
130 interrupted.
"""

from __future__ import annotations

import sys
import traceback
from typing import Annotated, Any

import typer

from onebasin import __version__
from onebasin.cli.align import METHODS, align, barrier, merge
from onebasin.cli.demo import demo
from onebasin.cli.eval import evaluate
from onebasin.cli.inspect import inspect
from onebasin.cli.recipe import run
from onebasin.cli.verify import verify
from onebasin.cli.widen import widen
from onebasin.errors import BrokenPromise, OnebasinError, Stopped
from onebasin.processes.ranks import rank
from onebasin.processes.signals import interruptible

INTERRUPTED = 130
EXIT_CODES = {Stopped: INTERRUPTED, BrokenPromise: 1}
SHARED = ("align", "merge", "run")  # of several processes, all carry these out; only the first does the others
UsageError: Any = typer.BadParameter.__bases__[0]  # click's, wherever typer keeps it

app = typer.Typer(
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Align, interpolate and merge independently trained Transformers through the symmetries of their weights.",
)
for verb in (inspect, verify, align, barrier, merge, evaluate, widen, run, demo):
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
    with interruptible():
        _run(arguments)


def _run(arguments: list[str]) -> None:
    try:
        code = app(args=arguments or ["--help"], prog_name="onebasin", standalone_mode=False)
    except UsageError as error:
        _tell(f"{_explained(error)}")
        sys.exit(2)
    except OnebasinError as error:
        if "--debug" in arguments:
            traceback.print_exc()
        _tell(f"{error}")
        sys.exit(EXIT_CODES.get(type(error), 2))
    except (KeyboardInterrupt, typer.Abort):
        _leave_interrupted()
    if code == INTERRUPTED:  # typer's translation of Ctrl-C
        _leave_interrupted()
    sys.exit(code or 0)


def _explained(error: Any) -> OnebasinError:
    """A command line that was not understood, in the words of all other refusals."""
    near = getattr(error, "possibilities", None)
    what = error.message if near else error.format_message()
    command = error.ctx.command_path if error.ctx else "onebasin"
    step = f"{command} --help lists what there is"
    return OnebasinError(what.rstrip("."), next_step=f"did you mean {near[0]}? {step}" if near else step)


def _tell(text: str) -> None:
    if not rank():
        typer.echo(f"onebasin: {text}", err=True)


def _leave_interrupted() -> None:
    _tell("interrupted; nothing unfinished is left behind")
    sys.exit(INTERRUPTED)
