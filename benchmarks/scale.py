"""This module measures how time, memory and recovery of a planted field grow with sparse 0/1 data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from benchmarks.charts import Series, draw_lines
from benchmarks.command_line import RESULTS, Json, Output, Seed, print_rows, write_charts
from benchmarks.measure import CutOffError, Report, growth, in_child, last_line, measure
from benchmarks.planted import PlantedData, draw_planted, score_per_row
from sparsefield.app.cli.console import print_message, show, show_json
from sparsefield.estimators import MarkovField

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AIMS", "SHORT", "default_l1", "draw_growth", "growth_of", "run_scale", "sizes_of"]

Array = np.ndarray[Any, np.dtype[Any]]
Row = dict[str, Any]
Size = tuple[int, int]

COLUMNS, ROWS = (1_000, 10_000, 100_000, 1_000_000), (10_000, 100_000, 1_000_000)
FIXED_COLUMNS, FIXED_ROWS = 10_000, 100_000
AIMS: tuple[Size, ...] = ((10_000, 500_000), (100_000, 100_000), (1_000_000, 100_000))
"""Columns and rows that we want to manage."""

SHORT: tuple[Size, ...] = ((1_000, 2_000), (1_000, 4_000), (1_000, 8_000), (2_000, 4_000), (4_000, 4_000))
HELD_OUT = 2_000
WARM_UP_COLUMNS, WARM_UP_ROWS, WARM_UP_ON = 300, 400, (3.0, 30.0)
"""Small data with 1% and 10% of the cells on, since one and the other may be learned in different ways."""

SEEN = 10.0
"""A planted pair that is expected together in fewer rows than this cannot be told from chance."""


@dataclass(frozen=True)
class Task:
    """A task is what the process of one size does."""

    columns: int
    rows: int
    on: float
    l1: float | None
    l2: float
    held_out: int
    n_jobs: int | None
    seed: int


def sizes_of(columns: Sequence[int] | None = None, rows: Sequence[int] | None = None) -> list[Size]:
    """Return (columns, rows) to run, small ones first.

    With neither given: both series, columns at 100,000 rows and rows at 10,000 columns, and the named aims. Otherwise
    every number of columns with every number of rows, where what is left out is the fixed size of the series.

    Examples
    --------
    >>> sizes_of([1000], [2000, 4000])
    [(1000, 2000), (1000, 4000)]
    """
    if columns is None and rows is None:
        series = [(n, FIXED_ROWS) for n in COLUMNS] + [(FIXED_COLUMNS, m) for m in ROWS]
        return sorted({*series, *AIMS}, key=lambda size: (size[1], size[0]))
    return [(n, m) for m in rows or (FIXED_ROWS,) for n in columns or (FIXED_COLUMNS,)]


def default_l1(matrix: Any) -> float:
    """Return a penalty from the data alone that excludes chance: 8 + 14 sqrt(rows) r.

    At the start the gradient of a pair is about 2 (rows in which both are on, less those expected by chance). The noise
    of that is 2 sqrt(rows p p'), taken seven times with p = p' = r, the rate of a typical cell that is on: the mean
    over such cells of how often their column is on. 8 asks for five rows where both are on, however rare they are.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> default_l1(sp.csr_matrix(np.eye(100)))
    9.4
    """
    counts = np.bincount(matrix.indices, minlength=matrix.shape[1]).astype(np.float64)
    typical = float(counts @ counts / max(counts.sum(), 1.0)) / matrix.shape[0]
    return 8.0 + 14.0 * float(np.sqrt(matrix.shape[0])) * typical


def run_scale(
    sizes: Sequence[Size],
    *,
    on: float = 50.0,
    l1: float | None = None,
    l2: float = 0.0,
    held_out: int = HELD_OUT,
    n_jobs: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    report: Report = print,
) -> list[Row]:
    """Return a row per size: seconds and memory of the fit, its certificate, and the recovery of the planted field.

    Each size has a process to itself and a small fit first, so that nothing is compiled while the clock runs.

    Parameters
    ----------
    sizes : sequence of (columns, rows)
    on : float
        Expected cells that are on in a row.
    l1 : float, optional
        :func:`default_l1` of the data when left out.
    held_out : int
        Rows that are scored and not learned from.
    time_limit : float, optional
        Seconds after which a process, with its drawing of data, is ended.

    Returns
    -------
    list of dict
        data, method, status ("done", or why not), columns, rows, cells_on, touched (cells that are on, and for each of
        them the features of its column), l1, seconds, peak_mb (beyond the data),
        total_mb (of the whole process), iterations, features (weights that are not 0), certified, kkt_violation,
        precision, recall, learnable (planted pairs expected together in at least ten rows), recall_learnable, and
        held-out nats per row: score, score_independent and score_truth.
    """
    table: list[Row] = []
    for columns, rows in sizes:
        report(f"{columns:,} columns, {rows:,} rows, {on:g} on in a row ...")
        head = {"data": f"{columns:,} x {rows:,}", "method": "sparsefield", "status": "done"}
        head |= {"columns": columns, "rows": rows}
        task = Task(columns, rows, on, l1, l2, held_out, n_jobs, seed)
        try:
            table.append(head | in_child(_one_size, task, time_limit=time_limit))
            report(f"  {table[-1]['seconds']:.1f} s, {table[-1]['peak_mb']:,.0f} MB beyond the data")
        except CutOffError as error:
            table.append(head | {"status": str(error)})
        except RuntimeError as error:
            table.append(head | {"status": f"failed: {last_line(error)}"})
    return table


def growth_of(table: Sequence[Row]) -> list[Row]:
    """Return exponents of seconds and memory over columns at fixed rows, and over rows at fixed columns.

    At fixed rows the number of cells that are on stays the same, so the exponent there is against columns; at fixed
    columns it is against the cells that are on, and against the beliefs that these touch, since more rows bring more
    features.
    """
    done = [row for row in table if row["status"] == "done"]
    found = []
    for fixed, against in (("rows", "columns"), ("columns", "cells_on"), ("columns", "touched")):
        for value in sorted({row[fixed] for row in done}):
            series = [row for row in done if row[fixed] == value]
            sizes = [row[against] for row in series]
            exponents = {
                f"{cost}_exponent": growth(sizes, [row[cost] for row in series])
                for cost in ("seconds", "peak_mb", "total_mb")
            }
            if exponents["seconds_exponent"] is not None:
                found.append({"fixed": f"{value:,} {fixed}", "against": against, "points": len(series)} | exponents)
    return found


def draw_growth(table: Sequence[Row]) -> dict[str, Figure]:
    """Draw seconds and memory of :func:`run_scale` against columns and against nonzero cells."""
    done = [row for row in table if row["status"] == "done"]
    charts = {}
    for fixed, against, words in (("rows", "columns", "columns"), ("columns", "cells_on", "cells that are on")):
        for cost, unit in (("seconds", "seconds"), ("peak_mb", "MB beyond the data")):
            lines = [
                Series(f"{value:,} {fixed}", [(row[against], row[cost]) for row in done if row[fixed] == value])
                for value in sorted({row[fixed] for row in done})
            ]
            # A single point is no series, but where there is nothing else it is shown.
            lines = [line for line in lines if len(line.points) > 1] or lines
            name = f"scale-{'seconds' if cost == 'seconds' else 'memory'}-by-{against.replace('_', '-')}.svg"
            title = f"Learning a sparse field: {unit} against {words}"
            charts[name] = draw_lines(title, lines, x_label=words, y_label=unit)
    return charts


def _one_size(task: Task) -> Row:
    field = MarkovField(l1=6.0, l2=task.l2, n_jobs=task.n_jobs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for few in WARM_UP_ON:  # compiles what is compiled
            field.fit(draw_planted(WARM_UP_COLUMNS, WARM_UP_ROWS, on=few, seed=task.seed).matrix)
    data = draw_planted(task.columns, task.rows, on=task.on, held_out=task.held_out, seed=task.seed)
    field.set_params(l1=default_l1(data.matrix) if task.l1 is None else task.l1)
    measured = measure(lambda: field.fit(data.matrix), repeats=1, threads=1)
    return {
        "cells_on": int(data.matrix.nnz),
        "l1": float(field.l1),
        "seconds": measured.best,
        "peak_mb": measured.peak_bytes / 2**20,
        "total_mb": measured.total_bytes / 2**20,
        "iterations": field.n_iter_,
        "certified": field.converged_,
        "kkt_violation": field.kkt_violation_,
    } | _quality(field, data)


def _quality(field: MarkovField, data: PlantedData) -> Row:
    biases, pairs, weights = learned(field, data.matrix)
    columns = data.biases.size
    found, planted = pairs[:, 0] * columns + pairs[:, 1], data.pairs[:, 0] * columns + data.pairs[:, 1]
    hit = np.isin(planted, found)
    seen = data.expected_together >= SEEN
    features = np.bincount(pairs.ravel(), minlength=columns)
    row: Row = {
        "features": len(found),
        "touched": int((1 + features)[data.matrix.indices].sum()),
        "precision": float(hit.sum() / max(len(found), 1)),
        "recall": float(hit.mean()),
        "learnable": int(seen.sum()),
        "recall_learnable": float(hit[seen].mean()) if seen.any() else None,
    }
    if data.held_out.nnz:
        row["score"] = score_per_row(data.held_out, biases, pairs, weights)
        row["score_independent"] = score_per_row(data.held_out, _independent(data.matrix))
        row["score_truth"] = score_per_row(data.held_out, data.biases, data.pairs, data.weights)
    return row


def learned(field: Any, matrix: Any) -> tuple[Array, Array, Array]:
    """Return biases, pairs (the smaller column first) and nonzero weights of a field over 0/1 columns.

    A column that was never on in ``matrix`` has no state in the field; its bias is that of half a count.
    """
    found = field.field_
    offsets = np.asarray(found.schema.target_offsets)
    if offsets.size != matrix.shape[1] + 1 or np.diff(offsets).max(initial=0) > 1:
        raise ValueError(f"the field has {offsets[-1]} states of {offsets.size - 1} columns, and no plain 0/1 columns")
    column = np.flatnonzero(np.diff(offsets))
    biases = _independent(matrix)
    biases[column] = found.biases
    kept = found.weights != 0.0
    return biases, np.sort(column[np.asarray(found.pairs)[kept]], axis=1), found.weights[kept]


def _independent(matrix: Any) -> Array:
    """Return the logits of the columns' frequencies, with half a count added to each state."""
    on = np.bincount(matrix.indices, minlength=matrix.shape[1])
    return np.log((on + 0.5) / (matrix.shape[0] - on + 0.5))


def command(
    columns: Annotated[
        list[int] | None, typer.Option("--columns", min=10, help="Numbers of columns; by default 1,000 to 1,000,000.")
    ] = None,
    rows: Annotated[
        list[int] | None, typer.Option("--rows", min=10, help="Numbers of rows; by default 10,000 to 1,000,000.")
    ] = None,
    on: Annotated[float, typer.Option("--on", help="Expected cells that are on in a row.")] = 50.0,
    l1: Annotated[
        float | None, typer.Option("--l1", help="By default 8 + 14 sqrt(rows) times the typical rate of a cell.")
    ] = None,
    l2: Annotated[float, typer.Option("--l2")] = 0.0,
    threads: Annotated[int | None, typer.Option("--threads", help="By default all cores.")] = None,
    time_limit: Annotated[float | None, typer.Option("--time-limit", help="Seconds allowed for a size.")] = None,
    short: Annotated[bool, typer.Option("--short", help="A few thousand columns and rows.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
    output: Output = RESULTS,
) -> None:
    """Learn from large sparse 0/1 data: growth of time and memory, and recovery of the planted field."""
    sizes = SHORT if short and not columns and not rows else sizes_of(columns or None, rows or None)
    found = run_scale(
        sizes, on=on, l1=l1, l2=l2, n_jobs=threads, time_limit=time_limit, seed=seed, report=print_message
    )
    exponents = growth_of(found)
    write_charts(draw_growth, found, output)
    if as_json:
        show_json({"rows": found, "growth": exponents})
        return
    costs = ("cells_on", "touched", "l1", "seconds", "peak_mb", "total_mb", "iterations", "features")
    costs += ("certified", "kkt_violation")
    print_rows(found, ("data", *costs))
    show()
    done = [row for row in found if row["status"] == "done"]
    scores = ("precision", "recall", "learnable", "recall_learnable", "score", "score_independent", "score_truth")
    print_rows(done, ("data", *scores))
    show()
    if exponents:
        shown = ("seconds_exponent", "peak_mb_exponent", "total_mb_exponent")
        print_rows(exponents, ("fixed", "against", "points", *shown))
