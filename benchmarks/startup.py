"""This module measures what a user waits for: imports, short commands, and the first fit, which compiles."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmarks.charts import Bar, draw_bars
from benchmarks.command_line import RESULTS, Json, Output, print_rows, write_charts
from benchmarks.measure import Report
from sparsefield.app.cli.console import print_message

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_startup", "run_startup"]

Row = dict[str, Any]

IMPORTS = {
    "import numpy, sklearn": "import numpy, sklearn",
    "import sparsefield": "import sparsefield",
    "from sparsefield import MarkovField": "from sparsefield import MarkovField",
}

PREPARE = """
import numpy as np, scipy.sparse as sp
from sparsefield import MarkovField
rng = np.random.default_rng(0)
"""
FITS = {
    "dense table": PREPARE
    + """
X = np.repeat(rng.random((400, 5)) < 0.3, 4, axis=1) ^ (rng.random((400, 20)) < 0.1)
X = X.astype(np.int8)
""",
    "sparse matrix": PREPARE
    + """
X = np.repeat(rng.random((400, 40)) < 0.02, 4, axis=1) & (rng.random((400, 160)) < 0.8)
X = sp.csr_matrix(X.astype(np.int8))
""",
}
"""Small enough that nearly all of a first fit is compiling; in the sparse one 1.6% of the cells are on."""

COMMANDS = {
    "--version": "--version",
    "--help": "--help",
    "fit --help": "fit --help",
    "info MODEL": "info model",
    "unknown option": "fit --nonsense",
    "misspelt command": "fitt",
    "fit, no such file": "fit absent.csv -o new",
    "fit, no such column": "fit table.csv -o new --observed z",
    "predict, no such table": "predict model absent.csv -o new.csv",
    "predict, not a model": "predict table.csv table.csv -o new.csv",
    "predict, a folder in place of a model": "predict . table.csv -o new.csv",
    "report, no column of the model": "report model --data other.csv -o new.html",
}
"""Calls of the command line that should answer at once; most of them are refused."""

PREPARE_FILES = """
import polars as pl
from sparsefield import MarkovField
table = pl.DataFrame({"a": [0, 1] * 20, "b": [0, 0, 1, 1] * 10})
table.write_csv("table.csv")
table.rename({"a": "c", "b": "d"}).write_csv("other.csv")
MarkovField(l1=1.0).fit(table).save("model")
"""
CALL = """
import os, sys
from sparsefield.app.cli import app, run_app
run_app(app, "sparsefield", {words!r})
print("seconds", sum(os.times()[:2]))
"""

TIMED = """
import time
{before}
started = time.perf_counter()
{timed}
print("seconds", time.perf_counter() - started)
"""


def run_startup(*, repeats: int = 3, time_limit: float | None = 600.0, report: Report = print) -> list[Row]:
    """Return a row per import, call of the command line or fit, each in a fresh process.

    Imports: the best of ``repeats``, since the first one may wait for the disk. Commands: the least
    processor time, user and system, of ``repeats`` whole processes. Fits: the first in a process whose
    folder of compiled code is empty, then the best of ``repeats`` fits, each the first of its own process, with the
    folder that the first one left. The time is that of ``fit`` alone, after imports.

    Returns
    -------
    list of dict
        data, method, status, seconds, and beyond, the seconds beyond numpy and scikit-learn (imports) or beyond the fit
        with compiled code at hand (fits).
    """
    table: list[Row] = []
    for name, statement in IMPORTS.items():
        seconds = [_seconds("", statement, {}, time_limit) for _ in range(repeats)]
        # The library itself imports nothing heavy before one of its names is asked for.
        beside = table[0]["seconds"] if "MarkovField" in name else None
        table.append(_row("import", name, seconds, beside))
        report(_line(table[-1]))
    for row in _time_commands(repeats, time_limit):
        table.append(row)
        report(_line(row))
    for name, before in FITS.items():
        with tempfile.TemporaryDirectory(prefix="sparsefield-startup-") as folder:
            cache = {"NUMBA_CACHE_DIR": folder}
            first = [_seconds(before, "MarkovField().fit(X)", cache, time_limit)]
            again = [_seconds(before, "MarkovField().fit(X)", cache, time_limit) for _ in range(repeats)]
        compiled = _row(f"fit, {name}", "compiled before", again, None)
        table += [_row(f"fit, {name}", "first ever", first, compiled["seconds"]), compiled]
        report(_line(table[-2]))
        report(_line(table[-1]))
    return table


def _time_commands(repeats: int, time_limit: float | None) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="sparsefield-startup-") as folder:
        subprocess.run([sys.executable, "-c", PREPARE_FILES], cwd=folder, check=True, timeout=time_limit)
        for name, words in COMMANDS.items():
            code = CALL.format(words=words.split())
            yield _row("command", name, [_run(code, {}, time_limit, folder) for _ in range(repeats)], None)


def draw_startup(table: Sequence[Row]) -> dict[str, Figure]:
    """Draw the rows of :func:`run_startup` as bars."""
    bars = [
        Bar(
            row["method"] if row["data"] in ("import", "command") else f"{row['data']}, {row['method']}", row["seconds"]
        )
        if row["status"] == "done"
        else Bar(row["method"], 0.0, note=row["status"])
        for row in table
    ]
    chart = draw_bars("Imports and first fits", bars, label="seconds", subtitle="each in a fresh process")
    return {"startup.svg": chart}


def _seconds(before: str, timed: str, more: dict[str, str], time_limit: float | None) -> float | str:
    """Return the seconds that ``timed`` takes in a fresh process after ``before``, or why there are none."""
    return _run(TIMED.format(before=before, timed=timed), more, time_limit)


def _run(code: str, more: dict[str, str], time_limit: float | None, folder: str | None = None) -> float | str:
    """Return the number that the code of a fresh process prints last, or why there is none."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            env=os.environ | more,
            capture_output=True,
            text=True,
            timeout=time_limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"cut off after {time_limit:.0f} s"
    if done.returncode:
        return f"failed: {(done.stderr.strip().splitlines() or ['without a word'])[-1]}"
    return float(done.stdout.split()[-1])


def _row(data: str, method: str, seconds: Sequence[float | str], beside: float | None) -> Row:
    row: Row = {"data": data, "method": method, "status": "done", "seconds": None, "beyond": None}
    wrong = [words for words in seconds if isinstance(words, str)]
    if wrong:
        return row | {"status": wrong[0]}
    best = min(float(value) for value in seconds)
    return row | {"seconds": best, "beyond": None if beside is None else best - beside}


def _line(row: Row) -> str:
    outcome = f"{row['seconds']:.2f} s" if row["status"] == "done" else row["status"]
    return f"  {row['data']}, {row['method']}: {outcome}"


def command(
    short: Annotated[bool, typer.Option("--short", help="Run once instead of three times.")] = False,
    as_json: Json = False,
    output: Output = RESULTS,
) -> None:
    """Measure imports, short commands, and the first fit with nothing compiled yet, in fresh processes."""
    found = run_startup(repeats=1 if short else 3, report=print_message)
    write_charts(draw_startup, found, output)
    print_rows(found, ("data", "method", "seconds", "beyond"), as_json)
