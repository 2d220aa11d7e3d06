"""Multiple imputation beside other tools: coverage of pooled intervals, and scores of draws of hidden cells."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command_line import Json, Seed, choose_parts, print_rows
from benchmarks.draws import PATTERNS, TABLES, mean_ranks, run_draws
from benchmarks.measure import Report
from benchmarks.mice import has_mice
from benchmarks.mixed_peers import draw_with_mice
from reproduction.public_data import load_mixed
from sparsefield import MarkovField, impute, pool
from sparsefield.analysis.imputation import PooledEstimates
from sparsefield.app.cli.console import print_message

Array = np.ndarray[Any, np.dtype[Any]]
Row = dict[str, Any]

MECHANISMS = ("mcar", "mar")
METHODS = ("no cell missing", "complete cases", "sparsefield", "mice (R)")
POPULATION = 500_000
"""Rows from which the true values of simulated data are computed."""


@dataclass(frozen=True)
class Population:
    """A population has rows to draw from, and the analysis of a table of them.

    Attributes
    ----------
    draw : callable
        ``draw(rows, rng)`` returns (rows, columns) numbers; the states of nominal and ordinal columns are 0, 1, ...
    kinds : kind of each column
    driver : column that is never hidden, on which the missing cells of the others depend under "mar"
    analyze : returns the estimates of a complete table and their variances, by name
    truth : the true values, by name
    l1 : L1 penalty of the field
    """

    draw: Callable[[int, np.random.Generator], Array]
    kinds: tuple[str, ...]
    driver: int
    analyze: Callable[[Array], tuple[dict[str, float], dict[str, float]]]
    truth: dict[str, float]
    l1: float


# -- populations ----------------------------------------------------------------------------------------------------


def draw_simulated(rows: int, rng: np.random.Generator) -> Array:
    """Return numbers x, z and y, a nominal g and an ordinal o, of which y depends on all others."""
    x = rng.normal(size=rows)
    z = 0.6 * x + 0.8 * rng.normal(size=rows)
    logits = np.column_stack([np.zeros(rows), 0.3 + 0.8 * x, -0.3 - 0.5 * x + 0.5 * z])
    g = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    o = np.digitize(0.8 * z + 0.7 * (g == 1) + rng.logistic(size=rows), [-1.0, 0.3, 1.5])
    y = 1.0 + 0.5 * x + 0.4 * z + 0.6 * (g == 1) - 0.4 * (g == 2) + 0.3 * o + rng.normal(size=rows)
    return np.column_stack([x, z, g, o, y])


def analyze_simulated(table: Array) -> tuple[dict[str, float], dict[str, float]]:
    """Return means, shares and coefficients of a linear regression of y, and their variances."""
    x, z, g, o, y = table.T
    columns = {"mean of z": z, "mean of y": y, "share of g = b": g == 1, "share of o = 4": o == 3}
    values, variances = _means(columns)
    design = np.column_stack([np.ones(len(y)), x, z, g == 1, g == 2, o])
    slopes, covariance = _regress(design, y)
    names = ("", "slope of x", "slope of z", "slope of g = b", "slope of g = c", "slope of o")
    for k, name in enumerate(names[1:], start=1):
        values[name], variances[name] = slopes[k], covariance[k, k]
    return values, variances


def analyze_bfi(table: Array) -> tuple[dict[str, float], dict[str, float]]:
    """Return means, shares and coefficients of a linear regression of an item, and their variances."""
    age, gender, education, a1, c1, n1 = table.T
    columns = {"mean of A1": a1, "mean of N1": n1, "share of women": gender == 1, "share of graduates": education == 4}
    values, variances = _means(columns)
    design = np.column_stack([np.ones(len(age)), age, gender, a1, c1])
    slopes, covariance = _regress(design, n1)
    for k, name in enumerate(("slope of age", "slope of gender", "slope of A1", "slope of C1"), start=1):
        values[name], variances[name] = slopes[k], covariance[k, k]
    return values, variances


@cache
def population(data: str) -> Population:
    """Return the population of "simulated" tables, or the complete rows of "bfi", drawn with replacement."""
    if data == "simulated":
        truth = analyze_simulated(draw_simulated(POPULATION, np.random.default_rng(12345)))[0]
        kinds = ("numeric", "numeric", "nominal", "ordinal", "numeric")
        return Population(draw_simulated, kinds, 0, analyze_simulated, truth, l1=5.0)
    import polars as pl

    table = load_mixed("bfi").select("age", "gender", "education", "A1", "C1", "N1")
    rows = table.drop_nulls().cast(pl.Float64).to_numpy().copy()
    rows[:, 1:] -= 1.0

    def draw(count: int, rng: np.random.Generator) -> Array:
        return rows[rng.integers(0, len(rows), count)]

    kinds = ("numeric", "nominal", "ordinal", "ordinal", "ordinal", "ordinal")
    return Population(draw, kinds, 0, analyze_bfi, analyze_bfi(rows)[0], l1=5.0)


def hide_cells(table: Array, mechanism: str, driver: int, rng: np.random.Generator) -> Array:
    """Return a table with about 25% of the cells of all columns but one missing: completely at random, or by that one.

    Under "mar" the logit of the probability rises by 1 for each standard deviation of the driver.
    """
    score = (table[:, driver] - table[:, driver].mean()) / table[:, driver].std()
    chance = np.full(len(table), 0.25) if mechanism == "mcar" else 1.0 / (1.0 + np.exp(1.25 - score))
    missing = rng.random(table.shape) < chance[:, None]
    missing[:, driver] = False
    return np.where(missing, np.nan, table)


def _means(columns: dict[str, Array]) -> tuple[dict[str, float], dict[str, float]]:
    values = {name: float(np.mean(column)) for name, column in columns.items()}
    return values, {name: float(np.var(column, ddof=1)) / len(column) for name, column in columns.items()}


def _regress(design: Array, target: Array) -> tuple[Array, Array]:
    slopes = np.linalg.lstsq(design, target, rcond=None)[0]
    residual = target - design @ slopes
    variance = residual @ residual / (len(target) - design.shape[1])
    return slopes, variance * np.linalg.inv(design.T @ design)


# -- methods --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Repetition:
    """A repetition is one drawn table with hidden cells."""

    data: str
    mechanism: str
    number: int
    rows: int
    imputations: int
    seed: int
    methods: tuple[str, ...]


@dataclass(frozen=True)
class Interval:
    """The estimate of one quantity in one repetition, with its interval."""

    method: str
    name: str
    estimate: float
    error: float
    covers: bool
    seconds: float


def run_repetition(task: Repetition) -> list[Interval]:
    """Return the intervals of all methods and quantities for one table."""
    source = population(task.data)
    rng = np.random.default_rng([task.seed, MECHANISMS.index(task.mechanism), task.number])
    table = source.draw(task.rows, rng)
    shown = hide_cells(table, task.mechanism, source.driver, rng)
    found = []
    for method in task.methods:
        started = time.perf_counter()
        names, pooled = _analyze(source, method, table, shown, task)
        seconds, (low, high) = time.perf_counter() - started, pooled.interval()
        for k, name in enumerate(names):
            covers = bool(low[k] <= source.truth[name] <= high[k])
            estimate, error = float(pooled.estimate[k]), float(pooled.standard_error[k])
            found.append(Interval(method, name, estimate, error, covers, seconds))
    return found


def _analyze(
    source: Population, method: str, table: Array, shown: Array, task: Repetition
) -> tuple[list[str], PooledEstimates]:
    """Return the names and pooled estimates of a method; mice gets ordinal columns as numbers: polr is far slower."""
    if method in ("no cell missing", "complete cases"):
        kept = table if method == "no cell missing" else shown[~np.isnan(shown).any(axis=1)]
        completed = [kept, kept]  # twice, since Rubin's rules for equal tables are the usual ones
    elif method == "mice (R)":
        kinds = ["levels" if kind == "ordinal" else kind for kind in source.kinds]
        completed = draw_with_mice(shown, kinds, task.imputations, seed=task.number + 1).result
    else:
        completed = _impute(source, shown, task)
    results = [source.analyze(np.asarray(one)) for one in completed]
    degrees = len(completed[0]) - len(source.kinds)
    values, variances = ([list(result[k].values()) for result in results] for k in (0, 1))
    return list(results[0][0]), pool(values, np.sqrt(variances), complete_df=degrees)


def _impute(source: Population, shown: Array, task: Repetition) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        field = MarkovField(l1=source.l1, kinds=dict(enumerate(source.kinds)), n_jobs=1).fit(shown)
    return impute(field, shown, task.imputations, seed=task.number)


# -- the benchmark --------------------------------------------------------------------------------------------------


def run_coverage(
    data: Sequence[str] = ("simulated", "bfi"),
    repetitions: int = 100,
    rows: int = 300,
    imputations: int = 10,
    seed: int = 0,
    methods: Sequence[str] | None = None,
    report: Report = print,
    *,
    mechanisms: Sequence[str] = MECHANISMS,
    processes: int | None = None,
) -> list[Row]:
    """Draw tables, hide cells, and return bias and coverage of 95% intervals for each method and quantity.

    Parameters
    ----------
    data : "simulated", "bfi"
    repetitions : number of tables for each data set and mechanism
    rows : rows of a table
    imputations : number of imputed tables
    methods : some of `METHODS`; None runs all, mice only if R and the package are installed
    processes : number of processes that share the repetitions; None uses all cores

    Returns
    -------
    list of dict
        data, mechanism, method, quantity; true value; bias of the estimates; sd, their standard deviation over tables;
        error, the mean standard error; coverage; seconds for a table.
    """
    wanted = choose_parts(methods, METHODS)
    if "mice (R)" in wanted and not has_mice():
        report("mice skipped: no Rscript with the package mice here")
        wanted.remove("mice (R)")
    found: list[Row] = []
    with ProcessPoolExecutor(processes) as workers:
        for name in data:
            for mechanism in mechanisms:
                started = time.perf_counter()
                head = name, mechanism
                tasks = [Repetition(*head, k, rows, imputations, seed, tuple(wanted)) for k in range(repetitions)]
                intervals = [one for part in workers.map(run_repetition, tasks) for one in part]
                found += _summarize(name, mechanism, intervals, wanted)
                report(f"{name}, {mechanism}: {repetitions} tables in {time.perf_counter() - started:.0f} s")
    return found


def _summarize(data: str, mechanism: str, intervals: Sequence[Interval], methods: Sequence[str]) -> list[Row]:
    rows = []
    for quantity, truth in population(data).truth.items():
        for method in methods:
            mine = [one for one in intervals if (one.method, one.name) == (method, quantity)]
            estimates = np.array([one.estimate for one in mine])
            rows.append(
                {
                    "data": data,
                    "mechanism": mechanism,
                    "quantity": quantity,
                    "method": method,
                    "truth": truth,
                    "bias": float(estimates.mean()) - truth,
                    "sd": float(estimates.std(ddof=1)),
                    "error": float(np.mean([one.error for one in mine])),
                    "coverage": float(np.mean([one.covers for one in mine])),
                    "seconds": float(np.mean([one.seconds for one in mine])),
                }
            )
    return rows


PARTS = ("intervals", "tables")


def command(
    part: Annotated[list[str] | None, typer.Option("--part", help="intervals, tables; by default both.")] = None,
    data: Annotated[list[str] | None, typer.Option("--data", help="Of intervals: simulated, bfi.")] = None,
    repetitions: Annotated[int, typer.Option("--repetitions", min=2, help="Tables for each setting.")] = 100,
    rows: Annotated[int, typer.Option("--rows", min=50, help="Rows of a table.")] = 300,
    imputations: Annotated[int, typer.Option("--imputations", min=2, help="Imputed tables.")] = 10,
    method: Annotated[list[str] | None, typer.Option("--method", help="Only these methods.")] = None,
    mechanism: Annotated[list[str] | None, typer.Option("--mechanism", help="mcar, mar; by default both.")] = None,
    table: Annotated[list[str] | None, typer.Option("--table", help=f"Of tables: {', '.join(TABLES)}.")] = None,
    pattern: Annotated[list[str] | None, typer.Option("--pattern", help=f"Of tables: {', '.join(PATTERNS)}.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Multiple imputation: bias and coverage of 95% intervals of drawn tables; energy scores of real ones."""
    parts = choose_parts(part, PARTS)
    if "intervals" in parts:
        found = run_coverage(
            choose_parts(data, ("simulated", "bfi")), repetitions, rows, imputations, seed, method, print_message,
            mechanisms=choose_parts(mechanism, MECHANISMS),
        )  # fmt: skip
        shown = ("data", "mechanism", "quantity", "method", "truth", "bias", "sd", "error", "coverage", "seconds")
        print_rows(found, shown, as_json)
    if "tables" in parts:
        tables, patterns = choose_parts(table, TABLES), choose_parts(pattern, PATTERNS)
        scored = run_draws(tables, patterns, seed, print_message, methods=method)
        print_rows(scored, ("data", "pattern", "method", "energy", "rank", "coverage", "seconds"), as_json)
        if not as_json:
            print_rows(mean_ranks(scored), ("method", "rank", "energy", "coverage", "seconds"))
