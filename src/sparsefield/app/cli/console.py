"""Results on stdout, as tables, JSON or files; progress, notes and errors on stderr; checks of outputs."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsefield.app.pages.names import visible
from sparsefield.app.tables.write import STANDARD_OUTPUT, check_output_format, find_output_kind, write_table
from sparsefield.atomic_write import is_standard_output, is_stream
from sparsefield.errors import DataError

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console
    from rich.table import Table

    from sparsefield.model import IterationRecord
    from sparsefield.solver import PathPoint

PAGES = (".html", ".htm")
FILE_WIDTH = 160
"""Width of a table that is written to a file or a pipe."""

FIRST_LINE_SECONDS = 5.0
"""Seconds until the first progress line without a terminal; each interval is twice the previous one."""

USUAL_VALUES = 16
"""Values of l1 that a search usually tries at most."""

SHOWN_ROWS = 20
"""Rows of a result that are printed; JSON and files have all."""


_silence = {"messages": False, "results": False, "results_on_stderr": False}
"""What ``--quiet`` leaves out: notes and progress, and results; and whether results are messages, because standard
output has the file that was asked for."""


@contextmanager
def silenced(*, messages: bool, results: bool) -> Iterator[None]:
    """Print no notes and progress, or no results, while the context is open; errors are always printed."""
    before = dict(_silence)
    _silence.update(messages=messages, results=results, results_on_stderr=False)
    try:
        yield
    finally:
        _silence.update(before)


@cache
def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    plain = partial(Console, stderr=stderr, highlight=False, markup=False, emoji=False)
    return plain() if plain().is_terminal else plain(width=FILE_WIDTH)


# -- results ---------------------------------------------------------------------------------------------------------


def deliver(
    parts: Iterable[str | Table],
    content: Callable[[], dict[str, Any]] | None = None,
    *,
    as_json: bool = False,
    frame: pl.DataFrame | None = None,
    output: Path | None = None,
    written: Sequence[Path] = (),
) -> None:
    """Print the result of a command as texts and tables, or as JSON, after its frame was written to an output.

    Parameters
    ----------
    parts : what people read
    content : what ``--json`` prints
    frame, output : file by ``-o``, its format by the suffix, and what it gets
    written : other files that were written, to be named at the end
    """
    if output is not None and frame is not None:
        write_table(frame, output)
        written = [output, *written]
    if as_json and content is not None:
        show_json(content())
        return
    shown = 0
    for part in parts:
        show(part)
        shown += 1
    if written:
        names = ["to standard output" if str(path) == "-" else str(path) for path in written]
        show(f"{chr(10) if shown > 1 else ''}Wrote {', '.join(names)}.")


def show(what: str | Table = "") -> None:
    """Print a text or a table of a result."""
    if _silence["results"] or (_silence["results_on_stderr"] and _silence["messages"]):
        return
    shown = visible(what) if isinstance(what, str) else what
    _console(stderr=_silence["results_on_stderr"]).print(shown, soft_wrap=isinstance(what, str))


def show_json(value: Any) -> None:
    """Print a result as JSON, with rows for frames and null for numbers that are not finite."""
    import msgspec

    def rows_or_list(part: Any) -> Any:
        return part.to_dicts() if hasattr(part, "to_dicts") else part.tolist()

    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=rows_or_list)).decode()
    print(text, file=sys.stderr if _silence["results_on_stderr"] else sys.stdout)


def new_table(*headings: str, left: int = 1, rows: Iterable[Iterable[str]] = ()) -> Table:
    """Return a plain table whose first ``left`` columns are left-aligned and the others right-aligned."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for position, heading in enumerate(headings):
        table.add_column(visible(heading), justify="left" if position < left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(visible, row))
    return table


def frame_table(
    frame: pl.DataFrame, columns: Sequence[str] | None = None, most: int = SHOWN_ROWS
) -> Iterator[str | Table]:
    """Yield the first rows of a frame as a table, with some columns or all, and how many more there are.

    Columns of text are left-aligned, and columns without a value are left out.
    """
    import polars as pl

    names = [name for name in columns or frame.columns if name in frame.columns]
    names = [name for name in names if frame[name].null_count() < max(frame.height, 1)]
    rows = (map(format_cell, row) for row in frame.head(most).select(names).iter_rows())
    table = new_table(*(name.replace("_", " ") for name in names), rows=rows)
    for column, name in zip(table.columns, names, strict=True):
        column.justify = "left" if frame[name].dtype == pl.String else "right"
    yield table
    if frame.height > most:
        yield f"... and {frame.height - most:,} more: --json lists all."


def format_cell(value: Any) -> str:
    """Return a value as a cell of a printed table; what is not defined is empty."""
    if value is None or value != value:
        return ""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    size = abs(value)
    return f"{value:,.0f}" if size >= 1000 else f"{value:.1e}" if 0 < size < 0.0005 else f"{value:.3f}"


COMPILING = "compiling, once on this machine"
"""State of work that needs kernels that were never compiled before."""

# -- messages --------------------------------------------------------------------------------------------------------


def print_message(line: str) -> None:
    """Print a line on stderr."""
    _console(stderr=True).print(visible(line), soft_wrap=True)


def inform(line: str) -> None:
    """Print a line on stderr, unless messages are silenced."""
    if not _silence["messages"]:
        print_message(line)


def note(line: str) -> None:
    """Print a note on stderr."""
    inform(f"Note: {line}")


@contextmanager
def _tell_of_compiling(tell: Callable[[], None]) -> Iterator[None]:
    """Call a function when the first kernel is compiled, not when one is loaded that was compiled before."""
    from numba.core import event

    class First(event.Listener):
        heard = False

        def on_start(self, event: Any) -> None:
            if not self.heard:
                self.heard = True
                tell()

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", First()):
        yield


class StatusLine:
    """The state of running work, named by its title: a bar on a terminal, elsewhere a line now and then.

    ``inference`` counts the blocks of rows that are inferred.
    """

    def __init__(self, title: str, *, inference: bool = False) -> None:
        self._title, self._next, self._begun = visible(title), FIRST_LINE_SECONDS, time.perf_counter()
        self._done, self._first, self._started, self._last = 0, None, self._begun, self._begun
        """Units that are done, and were when the clock started; when it did, and when the last was done."""
        self._bar: Any = None
        self._inference, self._open = inference, ExitStack()

    def __enter__(self) -> StatusLine:
        console = _console(stderr=True)
        if _silence["messages"]:
            self._next = math.inf
        elif console.is_terminal or console.is_jupyter:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            texts = [TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[state]}")]
            parts = texts[0], BarColumn(12), texts[1], TimeElapsedColumn()
            self._bar = Progress(*parts, console=console, transient=True)
            self._bar.add_task(self._title, total=None, state="")
            self._bar.start()
            self._open.callback(self._bar.stop)
        else:
            print_message(f"{self._title} ...")
        if self._inference:
            self.watch_inference()
        self._open.enter_context(_tell_of_compiling(self._say_compiling))
        return self

    def watch_inference(self, title: str = "") -> None:
        """Count the blocks of rows that are inferred from here on, under another title."""
        from sparsefield.compute.threads import report_progress

        self.change_title(title or self._title)
        self._open.enter_context(report_progress(self.show_progress))

    def change_title(self, title: str) -> None:
        """Name what is done next, and begin another count."""
        self._title, self._first, self._done = visible(title), None, 0
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=self._title, state="", completed=0, total=None)

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _say_compiling(self) -> None:
        if self._bar is None:
            inform(f"{self._title}: {COMPILING}")
        else:
            self.update(COMPILING)

    def on_iteration(self, record: IterationRecord) -> None:
        """Show how far a fit is; while values of l1 are tried, the last of them and an estimate of the time left."""
        if record.iteration == 1:  # of another fit
            self.change_title(self._title)
        if record.phase != "path":
            self.update(f"iteration {record.iteration:,}, {record.active:,} features")
        elif not self._done:
            self.update(f"l1: value 1 of about {USUAL_VALUES}")

    def on_path_point(self, _: PathPoint) -> None:
        """Show how many values of l1 were tried, and about how long the others will take."""
        done = self._done + 1  # a value counts again in other folds
        self.show_progress(done, max(USUAL_VALUES, done + 1), f"l1: value {done} of about")

    def show_progress(self, done: int, total: int, what: str = "") -> None:
        """Show that ``done`` of ``total`` units are done, and the time left; fewer than before begin another count."""
        now = time.perf_counter()
        if self._first is None:  # the clock starts after the first value of l1, in which kernels are compiled
            self._first, self._started = done, now
        elif done <= self._done:
            self._first, self._started = 0, self._last if done else now
        self._done, self._last = done, now
        if done:
            what = f"{what} {total:,}" if what else f"{done / total:.0%} done"
            if done > self._first:
                what += f", about {(now - self._started) * (total - done) / (done - self._first):,.0f} s left"
            self.update(what, done, total)

    def update(self, state: str, done: int = 0, total: int | None = None) -> None:
        """Show the current state."""
        seconds = time.perf_counter() - self._begun
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], state=visible(state), completed=done, total=total)
        elif seconds >= self._next:
            self._next = 2 * seconds
            print_message(f"{self._title}: {state}, {seconds:.1f} s")


@contextmanager
def show_progress(title: str = "sparsefield") -> Iterator[None]:
    """Show what fits and predictions do, and about how long they will take, while the context is open.

    In a terminal or a notebook that is a bar, elsewhere a line on stderr now and then.

    Examples
    --------
    >>> import polars as pl
    >>> from sparsefield import MarkovField, show_progress
    >>> with show_progress():
    ...     field = MarkovField(l1=1.0).fit(pl.DataFrame({"a": [0, 1] * 20, "b": [0, 1] * 20}))
    """
    from sparsefield.solver.state import FitCallbacks, listeners

    with StatusLine(title, inference=True) as line:
        token = listeners.set(FitCallbacks(line.on_iteration, line.on_path_point))
        try:
            yield
        finally:
            listeners.reset(token)


# -- checks of outputs, before any long computation ------------------------------------------------------------------


def check_output(path: Path, suffixes: Sequence[str] = ()) -> None:
    """Refuse an output file that cannot be written.

    Where the output is standard output, everything else is printed on stderr. Devices and pipes need no suffix.
    """
    if is_standard_output(path):
        _silence["results_on_stderr"] = True
        return
    if is_stream(path):
        if not os.access(path, os.W_OK):
            raise DataError(f"{path}: this device or pipe is not writable.")
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise DataError(f"{path}: the name of the output should end in {', '.join(suffixes)}.")
    if path.is_dir():
        raise DataError(f"{path}: this is a folder: give a file.")
    target = Path(os.path.realpath(path))
    _check_writable(target.parent, path)
    if target.is_file() and not os.access(target, os.W_OK):
        raise DataError(f"{path}: the file is write-protected: choose another name, or change its mode.")


def check_table_output(path: Path | None) -> None:
    """Refuse an output for a table that cannot be written."""
    if path == STANDARD_OUTPUT:
        _silence["results_on_stderr"] = True
    elif path is not None:
        if not is_stream(path):
            check_output_format(path)
        check_output(path)


def check_folder(path: Path) -> None:
    """Refuse an output folder that cannot be created or written."""
    if path.is_file() or (find_output_kind(path) is not None and not path.is_dir()):
        raise DataError(f"{path}: several files are written: give a folder, such as 'results'.")
    _check_writable(path if path.is_dir() else path.parent, path)


def _check_writable(folder: Path, path: Path) -> None:
    if not folder.is_dir():
        raise DataError(f"{path}: the folder '{folder}' does not exist; create it first.")
    if not os.access(folder, os.W_OK):
        raise DataError(f"{path}: the folder '{folder}' is not writable.")
