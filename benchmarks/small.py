"""This module measures fits of small tables, where calls cost more than arithmetic, and larger ones for comparison."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import polars as pl
import typer

from benchmarks.charts import Bar, draw_bars
from benchmarks.command_line import RESULTS, Json, Output, choose_parts, print_rows, write_charts
from benchmarks.ising import draw_ising
from benchmarks.measure import Report
from reproduction.public_data import load_dataset, load_mixed
from sparsefield.app.cli.console import print_message
from sparsefield.estimators import MarkovField, RelationalField
from sparsefield.induction import CFI
from sparsefield.inference import MeanField
from sparsefield.solver import Features, Solver

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CASES", "Case", "draw_small", "hide_tenth", "run_small"]

Row = dict[str, Any]
SHARE = 0.1
"""Share of the cells that are held out, as in the folds of Table 1."""


@dataclass(frozen=True)
class Case:
    """A case is a fit with fixed l1: the function that makes its data and its estimator, and whether it is small."""

    title: str
    make: Callable[[], tuple[Any, Any]]
    small: bool = True
    predicts: bool = False
    """Whether the missing cells are predicted, too."""


def run_small(
    names: Sequence[str] | None = None, *, repeats: int = 5, short: bool = False, report: Report = print
) -> list[Row]:
    """Return a row per case: the least processor time of ``repeats`` fits, in this process and on one thread.

    The first fit, which compiles or loads kernels, is not counted.

    Returns
    -------
    list of dict
        data, method, status, seconds (of fit and prediction together), fit_seconds, predict_seconds, iterations,
        features, and whether the fit converged.
    """
    rows = []
    for name in choose_parts(names, CASES):
        case = CASES[name]
        if short and not case.small:
            continue
        rows.append(_measure(case, 1 if short else repeats))
        report(f"  {case.title}: {rows[-1]['seconds']:.3f} s")
    return rows


def _measure(case: Case, repeats: int) -> Row:
    data, estimator = case.make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _time_fit(case, data, estimator)
        seconds = min((_time_fit(case, data, estimator) for _ in range(repeats)), key=sum)
    record = estimator.field_.record
    return {
        "data": case.title,
        "method": "fit and prediction" if case.predicts else "fit",
        "status": "done",
        "seconds": sum(seconds),
        "fit_seconds": seconds[0],
        "predict_seconds": seconds[1] if case.predicts else None,
        "iterations": record.n_iter,
        "features": len(estimator.field_.features),
        "converged": record.converged,
    }


def _time_fit(case: Case, data: Any, estimator: Any) -> tuple[float, float]:
    """Return the processor time of a fit, and of the prediction of missing cells."""
    times = [time.process_time()]
    estimator.fit(data)
    times.append(time.process_time())
    if case.predicts:
        estimator.infer(data)
    times.append(time.process_time())
    return times[1] - times[0], times[2] - times[1]


def hide_tenth(frame: pl.DataFrame, columns: Sequence[str], seed: int = 0) -> pl.DataFrame:
    """Return a frame with a tenth of the cells of some columns missing; no column loses all its cells."""
    hidden = np.random.default_rng(seed).random((len(columns), frame.height)) < SHARE
    hidden[hidden.all(axis=1), 0] = False
    masks = [pl.lit(pl.Series(~mask)) for mask in hidden]
    return frame.with_columns(
        pl.when(mask).then(pl.col(name)).alias(name) for name, mask in zip(columns, masks, strict=True)
    )


def _options(l1: float, inference: MeanField) -> dict[str, Any]:
    """Return the paper's setting with a certificate and free biases, as the folds of Table 1 have it."""
    return {
        "l1": l1,
        "l2": 1.0,
        "induction": CFI(threshold=0.2, batch_size=50),
        "solver": Solver(tol=1e-4),
        "missing": inference,
        "inference": inference,
        "features": Features(coding="reference"),
        "n_jobs": 1,
    }


def _nations() -> tuple[Any, Any]:
    data = load_dataset("nations").closed_world()
    names = {table: data.select_variables(table).names for table in data.tables}
    hidden = {table: hide_tenth(data.tables[table], columns) for table, columns in names.items() if columns}
    return data.with_tables(hidden), RelationalField(templates="base", **_options(2.0, MeanField(tolerance=0.1)))


def _animals() -> tuple[Any, Any]:
    frame = load_dataset("animals").frame
    return hide_tenth(frame, frame.columns), MarkovField(**_options(0.5, MeanField()))


def _survey(name: str) -> tuple[Any, Any]:
    return load_mixed(name).drop_nulls(), MarkovField(l1=5.0, n_jobs=1)


def _ising(nodes: int, rows: int) -> tuple[Any, Any]:
    return draw_ising(nodes, rows).samples, MarkovField(l1=20.0, n_jobs=1)


def _plants() -> tuple[Any, Any]:
    return load_dataset("plants").train, MarkovField(l1=20.0, n_jobs=1)


CASES = {
    "nations": Case("Nation fold", _nations, predicts=True),
    "animals": Case("Animal fold", _animals, predicts=True),
    "survey": Case("survey, 237 rows", lambda: _survey("survey")),
    "bfi": Case("bfi, 28 columns", lambda: _survey("bfi"), small=False),
    "ising-100": Case("Ising, 100 nodes, 1,000 rows", lambda: _ising(100, 1000)),
    "ising-400": Case("Ising, 400 nodes, 4,000 rows", lambda: _ising(400, 4000), small=False),
    "plants": Case("plants", _plants, small=False),
}


def draw_small(table: Sequence[Row]) -> dict[str, Figure]:
    """Draw the rows of :func:`run_small` as bars."""
    bars = [Bar(row["data"], row["seconds"]) for row in table]
    return {"small.svg": draw_bars("Fits of small tables", bars, label="seconds", subtitle="processor time")}


def command(
    part: Annotated[list[str] | None, typer.Option("--part", help=f"One of {', '.join(CASES)}; default all.")] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Fits of which the fastest counts.")] = 5,
    short: Annotated[bool, typer.Option("--short", help="Only the small tables, once.")] = False,
    as_json: Json = False,
    output: Output = RESULTS,
) -> None:
    """Measure the processor time of fits with fixed l1: of small tables, and of larger ones for comparison."""
    found = run_small(part, repeats=repeats, short=short, report=print_message)
    write_charts(draw_small, found, output)
    shown = ("data", "method", "seconds", "fit_seconds", "predict_seconds", "iterations", "features", "converged")
    print_rows(found, shown, as_json)
