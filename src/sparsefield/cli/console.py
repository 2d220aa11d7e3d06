"""What is said, and where: results on stdout; progress, notes and errors on stderr."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from sparsefield.model import IterationRecord

__all__ = ["Meter", "Watch", "new_table", "note", "say", "show", "show_json", "warnings_as_notes"]

FILE_WIDTH = 160
"""Columns for a table that goes into a file or a pipe, which have no width of their own."""

FIRST_LINE_AFTER = 5.0
"""Seconds until a long fit says something where there is no terminal; each silence doubles the last."""

SECONDS_BETWEEN = 0.1
"""A bar is drawn no more often: work may tell of itself a million times."""


@cache
def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    return (
        console
        if console.is_terminal
        else Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=FILE_WIDTH)
    )


def show(what: str | Table = "") -> None:
    """Print a result."""
    _console(stderr=False).print(what, soft_wrap=isinstance(what, str))


def show_json(value: Any) -> None:
    """Print a result as JSON, with null for what is no number, such as a mean of nothing."""
    print(json.dumps(_finite(value), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def say(line: str) -> None:
    """Print a line that is not a result."""
    _console(stderr=True).print(line, soft_wrap=True)


def note(line: str) -> None:
    """Say something that the user should know of."""
    say(f"Note: {line}")


def new_table(*headings: str, left: int = 1) -> Table:
    """A plain table whose first ``left`` columns stand to the left and the others to the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for position, heading in enumerate(headings):
        table.add_column(heading, justify="left" if position < left else "right", no_wrap=True)
    return table


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Show what warns the user as plain lines, each once; what warns programmers not at all."""
    shown: set[str] = set()

    def show_note(message: Warning | str, *_: Any, **__: Any) -> None:
        line = " ".join(str(message).split())
        if line not in shown:
            shown.add(line)
            note(line)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        # A model that was learned from an unnamed array calls its columns x0, x1, ...: names are right here.
        warnings.filterwarnings("ignore", message="X has feature names")
        warnings.showwarning = show_note
        yield


class Watch:
    """Shows fits while they run: a live line on a terminal, elsewhere a line now and then.

    Parameters
    ----------
    title : str
        What is being done.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._status: Any = None
        self._next = FIRST_LINE_AFTER
        self._started = time.perf_counter()

    def __enter__(self) -> Watch:
        console = _console(stderr=True)
        if console.is_terminal:
            self._status = console.status(self.title)
            self._status.start()
        else:
            say(f"{self.title} ...")
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def step(self, step: IterationRecord) -> None:
        """One iteration of a fit is done."""
        self.tell(f"objective {step.objective:,.2f}, {step.active:,} features")

    def tell(self, state: str) -> None:
        """Say how things stand."""
        seconds = time.perf_counter() - self._started
        line = f"{self.title}: {state}, {seconds:.1f} s"
        if self._status is not None:
            self._status.update(line)
        elif seconds >= self._next:
            self._next = 2 * seconds
            say(line)


class Meter:
    """Shows work of a known length while it runs: a bar with the time left on a terminal, else a line now and then.

    Parameters
    ----------
    title : str
        What is being done.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._watch = Watch(title)
        self._bar: Any = None
        self._started = self._last = time.perf_counter()

    def __enter__(self) -> Meter:
        console = _console(stderr=True)
        if console.is_terminal:
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
            self._bar = Progress(*columns, console=console, transient=True)
            self._bar.add_task(self.title, total=None)
            self._bar.start()
        else:
            self._watch.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, done: int, total: int) -> None:
        """So much is done, of so much."""
        now = time.perf_counter()
        if now < self._last + SECONDS_BETWEEN and done < total:
            return
        self._last = now
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total)
        else:
            left = (now - self._started) * (total - done) / max(done, 1)
            self._watch.tell(f"{done / total:.0%} done, about {left:,.0f} s left")
