"""This module runs CFI, Grafting and Full-L1 on the paper's largest synthetic networks (section 4.1, Figure 3)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from benchmarks.charts import Bar, draw_bars
from benchmarks.command_line import RESULTS, Json, Output, Seed, print_rows, write_charts
from benchmarks.ising import draw_ising, pseudo_log_likelihood
from benchmarks.measure import CutOffError, Report, in_child, last_line, measure
from benchmarks.peers import read_field
from sparsefield.cli.console import print_message
from sparsefield.estimators import MarkovField

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_paper", "run_paper"]

Array = np.ndarray[Any, np.dtype[Any]]
Row = dict[str, Any]

METHODS = {"cfi": "CFI", "grafting": "Grafting", "full": "Full-L1"}
PAPER = {"l1": 2.0, "l2": 1.0, "solver__tol": 1e-4, "penalize_biases": True}
"""Penalties of the paper, on every weight, and the ending that `reproduce table1` uses."""

BURN_IN, THIN = 2000, 200
"""Sweeps: weights up to 5 make chains slow. Each chain gives 20 rows, so that no single one decides."""


def run_paper(
    nodes: int = 1000,
    rows: int = 200,
    *,
    methods: Sequence[str] = tuple(METHODS),
    batches: Sequence[int | str] = (50, "auto"),
    threshold: float = 0.2,
    certify: bool = False,
    held_out: int = 200,
    n_jobs: int | None = 1,
    time_limit: float | None = 600.0,
    seed: int = 0,
    report: Report = print,
) -> list[Row]:
    """Return a row per method and batch: training time, time of scoring candidates, features and held-out score.

    Five neighbors on average, weights uniform in [-5, 5], l1 = 2, l2 = 1. Full-L1 has all candidates from the start,
    so it has no batches and one row.

    Parameters
    ----------
    nodes, rows : int
        The paper's N, and its M = 200.
    methods : sequence of {"cfi", "grafting", "full"}
    batches : sequence of int or "auto"
        How many features join at a time; the paper has 50.
    threshold : float
        Of CFI, for signals and errors.
    certify : bool
        Go on to a certified optimum; the paper does not.
    time_limit : float, optional
        Seconds after which the process of a fit is ended; its row says so.

    Returns
    -------
    list of dict
        data, method, status, batch, seconds, scoring_seconds, iterations, features, kkt_violation, times_cfi and
        scoring_times_cfi (against CFI with the same batch; Full-L1 against CFI with the first one), and held-out cll
        and error per cell, given the rest of the row.
    """
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise ValueError(f"no method called {unknown[0]!r}; there are {', '.join(METHODS)}")
    report(f"Drawing {rows + held_out} rows of a network with {nodes} nodes ...")
    data = draw_ising(nodes, rows + held_out, strength=5.0, burn_in=BURN_IN, thin=THIN, seed=seed)
    train, test = data.samples[:rows], data.samples[rows:]
    table: list[Row] = []
    for method in methods:
        for batch in batches[:1] if method == "full" else batches:
            row: Row = {"data": f"N={nodes}, M={rows}", "method": METHODS[method], "status": "done"}
            row["batch"] = "all" if method == "full" else batch
            options = PAPER | {"induction": method, "solver__certify": certify}
            options |= {"induction__batch_size": batch} if method != "full" else {}
            options |= {"induction__threshold": threshold} if method.startswith("cfi") else {}
            try:
                row |= in_child(_one_fit, train, test, options, n_jobs, time_limit=time_limit)
                report(f"  {row['method']}, batch {row['batch']}: {row['seconds']:.2f} s")
            except CutOffError as error:
                row["status"] = str(error)
                report(f"  {row['method']}, batch {row['batch']}: {row['status']}")
            except RuntimeError as error:
                row["status"] = f"failed: {last_line(error)}"
            table.append(row)
    _compare(table)
    return table


def draw_paper(table: Sequence[Row]) -> dict[str, Figure]:
    """Draw the training time of each row of :func:`run_paper`, and the part of it that is scoring."""
    bars = [
        Bar(f"{row['method']}, batch {row['batch']}", row["seconds"], row["scoring_seconds"])
        if row["status"] == "done"
        else Bar(f"{row['method']}, batch {row['batch']}", 0.0, note=row["status"])
        for row in table
    ]
    subtitle = f"the paper's synthetic network, {table[0]['data']}" if table else ""
    options = {"label": "seconds", "subtitle": subtitle, "part_label": "scoring candidates"}
    return {"paper.svg": draw_bars("CFI, Grafting and Full-L1", bars, **options)}


def _one_fit(train: Array, test: Array, options: dict[str, Any], n_jobs: int | None) -> Row:
    field = MarkovField(n_jobs=n_jobs).set_params(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        field.fit(train[:, :20])  # compiles what is compiled
        scoring: list[float] = []
        measured = measure(lambda: _fit(field, train, scoring), repeats=3, threads=1)
    history = field.field_.record.iterations
    found = read_field(field)
    beliefs = 1.0 / (1.0 + np.exp(-(test @ found.weights.T + found.bias)))
    return {
        "seconds": measured.best,
        "all_seconds": list(measured.seconds),
        "scoring_seconds": scoring[int(np.argmin(measured.seconds))],
        "iterations": field.n_iter_,
        "features": int(np.count_nonzero(field.field_.theta[field.field_.layout.n_target_columns :])),
        "joined": history[-1].features if history else 0,
        "kkt_violation": field.kkt_violation_,
        "cll": pseudo_log_likelihood(test, found.bias, found.weights),
        "error": float(np.mean((beliefs > 0.5) != (test == 1))),
    }


def _fit(field: MarkovField, train: Array, scoring: list[float]) -> None:
    history = field.fit(train).field_.record.iterations
    scoring.append(float(history[-1].scoring_seconds or 0.0) if history else 0.0)


def _compare(table: list[Row]) -> None:
    """Add ratios to CFI to the rows."""
    cfi = {row["batch"]: row for row in table if row["method"] == "CFI" and row["status"] == "done"}
    for row in table:
        beside = cfi.get(row["batch"], next(iter(cfi.values()), None))
        for name, ratio in (("seconds", "times_cfi"), ("scoring_seconds", "scoring_times_cfi")):
            known = beside is not None and row["status"] == "done" and beside[name] > 0
            row[ratio] = row[name] / beside[name] if known and beside else None


def command(
    nodes: Annotated[int | None, typer.Option("--nodes", min=8, help="The paper's N; by default 1000.")] = None,
    rows: Annotated[int, typer.Option("--rows", min=10, help="The paper's M.")] = 200,
    method: Annotated[list[str] | None, typer.Option("--method", help="cfi, grafting, full; else all.")] = None,
    threshold: Annotated[float, typer.Option("--threshold", help="Threshold of CFI.")] = 0.2,
    certify: Annotated[bool, typer.Option("--certify", help="Continue to a certified optimum.")] = False,
    time_limit: Annotated[float | None, typer.Option("--time-limit", help="Seconds allowed for a fit; 600.")] = None,
    short: Annotated[bool, typer.Option("--short", help="N = 300, 60 seconds a fit.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
    output: Output = RESULTS,
) -> None:
    """Learn the paper's synthetic networks: CFI beside Grafting and Full-L1."""
    size, limit = (nodes or (300 if short else 1000)), (time_limit or (60.0 if short else 600.0))
    names = tuple(method or METHODS)
    options = {"threshold": threshold, "certify": certify, "time_limit": limit}
    found = run_paper(size, rows, methods=names, seed=seed, report=print_message, **options)
    write_charts(draw_paper, found, output)
    shown = ("data", "method", "batch", "seconds", "times_cfi", "scoring_seconds", "scoring_times_cfi", "iterations",
             "features", "cll", "error", "kkt_violation")  # fmt: skip
    print_rows(found, shown, as_json)
