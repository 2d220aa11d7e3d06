"""The command ``sparsefield``.

Commands import heavy modules only when they run, so that help and usage errors appear at once.
"""

from __future__ import annotations

import functools
import os
import shlex
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, NoReturn

import typer
import typer.main

import sparsefield
from sparsefield.app.cli import analyze, fit, info, pages, predict
from sparsefield.app.cli.console import note, print_message, silenced
from sparsefield.app.pages.names import told_warnings
from sparsefield.app.tables.places import without_password
from sparsefield.errors import ClusterError, interrupts_as_such

QUIET = ("--quiet", "-q")
WRITE_FILES = ("fit", "predict", "sample", "report", "plot", "export")
"""Commands whose result is a file: with ``--quiet`` they print nothing."""

FAILED, BAD_USAGE, INTERRUPTED = 1, 2, 130

LEAST_ADDRESS_SPACE = 2**31
"""Bytes that polars and compiled kernels take; with fewer, they end the process."""

app = typer.Typer(
    name="sparsefield",
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # which wraps paragraphs at the width of the terminal
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Learn sparse Markov networks (conditional random fields) from tables with missing values, and use them to "
    "impute, to sample, and to see which columns depend on each other.",
)
for command in (info.inspect, info.schema, fit.fit, predict.predict, predict.sample, fit.evaluate, info.info):
    app.command(command.__name__)(command)
for command in (pages.report, pages.explore, pages.plot, pages.export):
    app.command(command.__name__)(command)
app.add_typer(analyze.app, name="analyze")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sparsefield {sparsefield.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error.")] = False,
    quiet: Annotated[
        bool, typer.Option(*QUIET, help="Print no progress and no notes, and nothing at all if the result is a file.")
    ] = False,
) -> None:
    """Declare options of all commands; `run_app` reads ``--debug`` and ``--quiet``, which may come anywhere."""


build_commands = functools.cache(typer.main.get_command)
"""Typer builds all commands of an app anew for every call; a process that runs several commands needs that once."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run a ``sparsefield`` command and exit with the code of `run_app`."""
    sys.exit(run_app(app, "sparsefield", args))


def run_app(app: typer.Typer, name: str, args: Sequence[str] | None = None) -> int:
    """Run a command of an app and return its exit code: 0 done, 2 bad usage or data, 130 interrupted, 1 anything else.

    Errors become a line of text here, and nowhere else.
    """
    all_words = list(sys.argv[1:] if args is None else args)
    words = []
    for word in all_words:
        url, password = without_password(word)
        words += [] if word in ("--debug", *QUIET) else [url]
        if password:  # libpq reads it from there, and messages and model files do not have it
            os.environ["PGPASSWORD"] = password
    command = shlex.join([name, *words])
    debug, quiet = "--debug" in all_words, any(word in all_words for word in QUIET)
    try:
        with (
            told_warnings(note),
            interrupts_as_such(),
            silenced(messages=quiet, results=quiet and bool(words) and words[0] in WRITE_FILES),
        ):
            with suppress(ImportError):  # Windows has no such limits
                import resource

                if 0 <= resource.getrlimit(resource.RLIMIT_AS)[0] < LEAST_ADDRESS_SPACE:
                    raise MemoryError
            code = build_commands(app)(words or ["--help"], prog_name=name, standalone_mode=False, obj=command) or 0
    except KeyboardInterrupt:  # typer turns it into the same code while a command runs
        code = INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exc()
        line, code = _explain(error, name)
        print_message(f"Error: {line}")
    if code == INTERRUPTED:
        print_message("Interrupted; no result was written.")
    return code


def _explain(error: Exception, program: str) -> tuple[str, int]:
    """Return one line for an error of a command, and its exit code."""
    if hasattr(error, "format_message"):  # typer's own, for a wrong option or argument
        line = _one_line(error.format_message())  # pyright: ignore[reportAttributeAccessIssue]
        command = getattr(getattr(error, "ctx", None), "command_path", program)
        end = "" if line.endswith("?") else "."
        return f"{line.rstrip('.')}{end} Try '{command} --help'.", BAD_USAGE
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror}.", BAD_USAGE
    if isinstance(error, (ValueError, OSError)):
        return _one_line(str(error)), BAD_USAGE
    if isinstance(error, ClusterError):
        return _one_line(str(error)), FAILED
    if isinstance(error, MemoryError):
        return "There is not enough memory: use fewer rows or columns, or raise the limit (ulimit -v).", FAILED
    return f"{type(error).__name__}: {_one_line(str(error))} (unexpected; --debug shows where).", FAILED


def _one_line(text: str) -> str:
    return " ".join(text.split())
