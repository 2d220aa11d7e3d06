"""This module measures what a new user waits for: the import, and the first fit, which compiles."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmarks.charts import Bar, draw_bars
from benchmarks.command_line import RESULTS, Json, Output, print_rows, write_charts
from benchmarks.measure import Report
from sparsefield.cli.console import print_message

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

TIMED = """
import time
{before}
started = time.perf_counter()
{timed}
print("seconds", time.perf_counter() - started)
"""


def run_startup(*, repeats: int = 3, time_limit: float | None = 600.0, report: Report = print) -> list[Row]:
    """Return a row per import or fit, each in a fresh process.

    Imports: the best of ``repeats``, since the first one may wait for the disk. Fits: the first in a process whose
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


def draw_startup(table: Sequence[Row]) -> dict[str, Figure]:
    """Draw the rows of :func:`run_startup` as bars."""
    bars = [
        Bar(row["method"] if row["data"] == "import" else f"{row['data']}, {row['method']}", row["seconds"])
        if row["status"] == "done"
        else Bar(row["method"], 0.0, note=row["status"])
        for row in table
    ]
    chart = draw_bars("Imports and first fits", bars, label="seconds", subtitle="each in a fresh process")
    return {"startup.svg": chart}


def _seconds(before: str, timed: str, more: dict[str, str], time_limit: float | None) -> float | str:
    """Return the seconds that ``timed`` takes in a fresh process after ``before``, or why there are none."""
    code = TIMED.format(before=before, timed=timed)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
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
    """Measure imports, and the first fit with nothing compiled yet, in fresh processes."""
    found = run_startup(repeats=1 if short else 3, report=print_message)
    write_charts(draw_startup, found, output)
    print_rows(found, ("data", "method", "seconds", "beyond"), as_json)
