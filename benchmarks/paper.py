"""This module runs CFI, Grafting and Full-L1 on the paper's largest synthetic networks (section 4.1, Figure 3)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from threadpoolctl import threadpool_limits

from benchmarks.charts import Bar, draw_bars
from benchmarks.command_line import RESULTS, Json, Output, Seed, print_rows, write_charts
from benchmarks.ising import pseudo_log_likelihood
from benchmarks.measure import CutOffError, Report, in_child, last_line
from benchmarks.peers import read_field
from sparsefield.app.cli.console import print_message
from sparsefield.app.datasets import make_markov_field
from sparsefield.estimators import MarkovField
from sparsefield.induction import CFI, Grafting
from sparsefield.induction.dense_scores import Thresholds, keep_large_values
from sparsefield.objectives.block_evaluation import EvaluatedBlock

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_paper", "run_paper"]

Array = np.ndarray[Any, np.dtype[Any]]
Row = dict[str, Any]

METHODS = {"cfi-paper": "CFI", "grafting": "Grafting", "full": "Full-L1", "cfi": "CFI with margins"}
"""CFI is Algorithm 1 as printed; "with margins" keeps the rank-one term, as this library does by default."""

PAPER = {"l1": 2.0, "l2": 1.0, "solver__tol": 1e-4, "solver__max_iter": 100_000, "features__penalize_biases": True}
"""Penalties of the paper, on every weight, and the ending that `python -m reproduction table1` uses."""

BURN_IN, THIN, CHAINS = 2000, 200, 10
"""Sweeps: weights up to 5 make chains slow, so that several chains share the rows, and no single one decides."""


def count_products(part: EvaluatedBlock, thresholds: Thresholds) -> float:
    """Return the number of products of large errors and large signals of a row, summed over the rows of a block."""
    large, _ = keep_large_values(part, thresholds)
    return float(np.count_nonzero(large.errors, axis=0) @ np.count_nonzero(large.expectations, axis=0))


class CountedCFI(CFI):
    """CFI that counts the products of large errors and large signals, and the times it scored."""

    def score(self, factors: Any, *args: Any, **options: Any) -> Any:
        thresholds = Thresholds(*self.thresholds, factors.means)
        COUNTS.add(factors.parts.sum(count_products, thresholds))
        return super().score(factors, *args, **options)


class CountedPaperCFI(CountedCFI):
    """`CountedCFI` without the rank-one term."""

    keeps_rank_one_term = False


class CountedGrafting(Grafting):
    """Grafting that counts the products of all errors and all signals."""

    def score(self, factors: Any, *args: Any, **options: Any) -> Any:
        COUNTS.add(sum(factors.parts.map(lambda part: float(part.errors.size) * len(part.expectations))))
        return super().score(factors, *args, **options)


@dataclass
class Counts:
    """The products of a fit, and how often candidates were scored."""

    products: float = 0.0
    scorings: int = 0

    def add(self, products: float) -> None:
        self.products, self.scorings = self.products + products, self.scorings + 1


COUNTS = Counts()
"""Of the fit that runs in this process."""

RULES = {"cfi-paper": CountedPaperCFI, "cfi": CountedCFI, "grafting": CountedGrafting}


def run_paper(
    nodes: int = 1000,
    rows: int = 200,
    *,
    methods: Sequence[str] = tuple(METHODS),
    batches: Sequence[int | str] = (50,),
    threshold: float = 0.2,
    certify: bool = False,
    held_out: int = 200,
    n_jobs: int | None = 1,
    time_limit: float | None = 1800.0,
    seed: int = 0,
    report: Report = print,
) -> list[Row]:
    """Return a row per method and batch: processor time, time and products of scoring, features and held-out score.

    Five neighbors on average, weights uniform in [-5, 5] on pairs of states (1, 1), l1 = 2, l2 = 1. Fits go on until
    the optimum of the working set gives no further candidate. Full-L1 has all candidates from the start, so it has no
    batches and one row.

    Parameters
    ----------
    nodes, rows : int
        The paper's N, and its M = 200.
    methods : sequence of {"cfi-paper", "grafting", "full", "cfi"}
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
        data, method, status, batch, seconds, scoring_seconds, iterations, scorings, products (of errors and signals, in
        all scorings), features, kkt_violation, times_cfi, scoring_times_cfi and products_times_cfi (against CFI with
        the same batch; Full-L1 against CFI with the first one), and held-out cll and error per cell, given the rest of
        the row.
    """
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise ValueError(f"no method called {unknown[0]!r}; there are {', '.join(METHODS)}")
    report(f"Drawing {rows + held_out} rows of a network with {nodes} nodes ...")
    samples, states = draw_network(nodes, rows + held_out, seed)
    train, test = samples[:rows], samples[rows:]
    table: list[Row] = []
    for method in methods:
        for batch in batches[:1] if method == "full" else batches:
            row: Row = {"data": f"N={nodes}, M={rows}", "method": METHODS[method], "status": "done"}
            row["batch"] = "all" if method == "full" else batch
            options = PAPER | {"induction": method, "solver__certify": certify}
            if method != "full":
                more = {"threshold": threshold} if method.startswith("cfi") else {}
                options["induction"] = RULES[method](batch_size=batch, **more)
            try:
                row |= in_child(_one_fit, train, test, states, options, n_jobs, time_limit=time_limit)
                report(f"  {row['method']}, batch {row['batch']}: {row['seconds']:.2f} s")
            except CutOffError as error:
                row["status"] = str(error)
                report(f"  {row['method']}, batch {row['batch']}: {row['status']}")
            except RuntimeError as error:
                row["status"] = f"failed: {last_line(error)}"
            table.append(row)
    _compare(table)
    return table


def draw_network(nodes: int, rows: int, seed: int) -> tuple[Array, dict[str, Any]]:
    """Return rows of a network of the paper's section 4.1, in random order, and the states of its columns."""
    data = make_markov_field(
        nodes, rows, neighbors=5.0, weights=(-5.0, 5.0), burn_in=BURN_IN, thin=THIN, chains=CHAINS, seed=seed
    )
    order = np.random.default_rng(seed).permutation(rows)  # rows of a chain are next to each other
    return data.samples[order], dict(data.field.states_)


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


def new_estimator(states: dict[str, Any], options: dict[str, Any], n_jobs: int | None = 1) -> MarkovField:
    """Return an estimator for columns with declared states; some columns of the paper's networks never change."""
    return MarkovField(n_jobs=n_jobs, kinds=dict.fromkeys(states, "nominal")).set_params(**options)


def _one_fit(train: Array, test: Array, states: Any, options: dict[str, Any], n_jobs: int | None) -> Row:
    few = dict(list(states.items())[:20])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        new_estimator(few, options, n_jobs).fit(train[:, :20], states=few)  # compiles what is compiled
        field = new_estimator(states, options, n_jobs)
        COUNTS.products = COUNTS.scorings = 0
        started = time.process_time()
        with threadpool_limits(limits=1):
            field.fit(train, states=states)
        seconds = time.process_time() - started
    history = field.field_.record.iterations
    found = read_field(field)
    beliefs = 1.0 / (1.0 + np.exp(-(test @ found.weights.T + found.bias)))
    return {
        "seconds": seconds,
        "scoring_seconds": float(history[-1].scoring_seconds or 0.0) if history else 0.0,
        "iterations": field.n_iter_,
        "scorings": COUNTS.scorings,
        "products": COUNTS.products,
        "features": int(np.count_nonzero(field.field_.theta[field.field_.layout.n_target_columns :])),
        "joined": history[-1].features if history else 0,
        "kkt_violation": field.kkt_violation_,
        "cll": pseudo_log_likelihood(test, found.bias, found.weights),
        "error": float(np.mean((beliefs > 0.5) != (test == 1))),
    }


def _compare(table: list[Row]) -> None:
    """Add ratios to CFI to the rows."""
    cfi = {row["batch"]: row for row in table if row["method"] == "CFI" and row["status"] == "done"}
    for row in table:
        beside = cfi.get(row["batch"], next(iter(cfi.values()), None))
        ratios = {"seconds": "times_cfi", "scoring_seconds": "scoring_times_cfi", "products": "products_times_cfi"}
        for name, ratio in ratios.items():
            known = beside is not None and row["status"] == "done" and beside[name] > 0
            row[ratio] = row[name] / beside[name] if known and beside else None


def command(
    nodes: Annotated[int | None, typer.Option("--nodes", min=8, help="The paper's N; by default 1000.")] = None,
    rows: Annotated[int, typer.Option("--rows", min=10, help="The paper's M.")] = 200,
    method: Annotated[list[str] | None, typer.Option("--method", help=f"{', '.join(METHODS)}; else all.")] = None,
    threshold: Annotated[float, typer.Option("--threshold", help="Threshold of CFI.")] = 0.2,
    certify: Annotated[bool, typer.Option("--certify", help="Continue to a certified optimum.")] = False,
    time_limit: Annotated[float | None, typer.Option("--time-limit", help="Seconds allowed for a fit; 1800.")] = None,
    short: Annotated[bool, typer.Option("--short", help="N = 300, 60 seconds a fit.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
    output: Output = RESULTS,
) -> None:
    """Learn the paper's synthetic networks: CFI beside Grafting and Full-L1."""
    size, limit = (nodes or (300 if short else 1000)), (time_limit or (60.0 if short else 1800.0))
    names = tuple(method or METHODS)
    options = {"threshold": threshold, "certify": certify, "time_limit": limit}
    found = run_paper(size, rows, methods=names, seed=seed, report=print_message, **options)
    write_charts(draw_paper, found, output)
    shown = ("data", "method", "batch", "seconds", "times_cfi", "scoring_seconds", "scoring_times_cfi", "products",
             "products_times_cfi", "iterations", "joined", "features", "cll", "error")  # fmt: skip
    print_rows(found, shown, as_json)
