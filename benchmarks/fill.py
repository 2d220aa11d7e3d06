"""This module imputes missing 0/1 cells with sparsefield and with scikit-learn's imputers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer
from threadpoolctl import threadpool_limits

from benchmarks.command_line import Json, Seed, print_rows
from benchmarks.ising import IsingData, draw_ising
from benchmarks.measure import Report, climb
from benchmarks.nodewise import l1_logistic
from reproduction.public_data import Splits, load_dataset
from sparsefield.app.cli.console import print_message
from sparsefield.errors import DataError

Array = np.ndarray[Any, np.dtype[Any]]
Row = dict[str, Any]

L1_GRID = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.7, 8.0, 11.0, 16.0, 22.0, 32.0, 45.0, 64.0)
LEAVES_GRID = (2.0, 4.0, 8.0, 16.0, 31.0)
CLIP = 0.001
"""IterativeImputer's regressions leave [0, 1]; as probabilities they keep this distance from 0 and 1."""
TINY = 1e-9
ROUNDS = 5
ISING_ROWS, TABLE_ROWS = 2000, 5000


@dataclass(frozen=True)
class IncompleteTable:
    """An incomplete table has missing cells whose true values are known.

    Attributes
    ----------
    train, test : array (rows, columns) of float
        NaN marks a missing cell.
    truth : array (rows, columns) of int8
        The complete test rows.
    source : IsingData or None
        The field behind the data, where it is known.
    """

    name: str
    train: Array
    test: Array
    truth: Array
    source: IsingData | None = None


def run_fill(
    data: Sequence[str] = ("ising", "plants"),
    rows: int | None = None,
    test_rows: int | None = None,
    missing: float = 0.2,
    seed: int = 0,
    methods: Sequence[str] | None = None,
    report: Report = print,
    *,
    nodes: int = 100,
    l2: float = 1.0,
) -> list[Row]:
    """Make cells of training and test rows missing at random, and compare what each method imputes.

    What a method has to choose (an l1, the size of trees) is chosen on a fifth of the training rows, in which
    further cells are made missing; then it is fitted to all of them. Everything runs on one thread.

    Parameters
    ----------
    data : sequence of str
        "ising", or the name of a binary data set of :func:`reproduction.public_data.load_dataset`.
    rows, test_rows : int, optional
        Upper limits. None is 2,000 training and 2,000 test rows of "ising", 5,000 training rows
        and the whole test split of the others.
    missing : float
        The share of cells that is made missing.
    seed : int
        Seed of the data and of the missing cells.
    methods : sequence of str, optional
        Some of the keys of ``METHODS``, or "oracle"; None runs all.
    report : callable
        Called with a line of text after each step.
    nodes : int
        Columns of "ising".
    l2 : float
        L2 penalty of the field, besides the L1 that is chosen.

    Returns
    -------
    list of dict
        One per data set and method: data, method, status ("done", or why not), tuned and value (what was
        chosen, if anything), accuracy and log_loss of the missing test cells (natural log), seconds (the fit
        and the filling at the chosen value).
    """
    known = [*METHODS, "oracle"]
    wanted = known if methods is None else list(methods)
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise ValueError(f"no such method: {', '.join(unknown)}; there are {', '.join(known)}")
    table: list[Row] = []
    for name in data:
        try:
            gaps = _make_incomplete(name, rows, test_rows, missing, seed, nodes)
        except DataError as error:
            table.append(_new_row(name, "all") | {"status": f"no data: {error}"})
            report(describe(table[-1]))
            continue
        missing_cells = int(np.isnan(gaps.test).sum())
        report(f"{gaps.name}: {len(gaps.train)} training rows, {len(gaps.test)} test rows, {missing_cells} missing")
        for method in wanted:
            if method == "oracle" and gaps.source is None:
                continue
            filler = _filler(gaps, method, seed, l2=l2)
            table.append(_row(gaps, filler, missing, seed))
            report(describe(table[-1]))
    return table


def describe(row: Row) -> str:
    """Return one row of :func:`run_fill` as a line of text."""
    if row["status"] != "done":
        return f"  {row['method']}: {row['status']}"
    chosen = "" if row["tuned"] is None else f", {row['tuned']} {row['value']:.3g}"
    figures = f"accuracy {row['accuracy']:.4f}, log-loss {row['log_loss']:.4f}"
    return f"  {row['method']}: {figures}, {row['seconds']:.1f} s{chosen}"


def make_missing(values: Array, share: float, rng: np.random.Generator) -> Array:
    """Return a float copy of ``values`` in which each cell is NaN with probability ``share``."""
    incomplete = np.array(values, dtype=np.float64)
    incomplete[rng.random(incomplete.shape) < share] = np.nan
    return incomplete


def filled_scores(beliefs: Array, truth: Array, missing: Array) -> tuple[float, float]:
    """Return accuracy and log-loss of the missing cells, given the probability of 1 in each cell."""
    ones = np.clip(beliefs[missing], TINY, 1.0 - TINY)
    right = truth[missing].astype(bool)
    log_loss = -np.mean(np.log(np.where(right, ones, 1.0 - ones)))
    return float(np.mean((ones > 0.5) == right)), float(log_loss)


def fill_with_frequencies(train: Array, test: Array) -> Array:
    """Impute the share of ones in each column, with one count added to each state."""
    seen, ones = np.sum(~np.isnan(train), axis=0), np.nansum(train, axis=0)
    return np.broadcast_to((ones + 1.0) / (seen + 2.0), test.shape)


def fill_with_iterative_imputer(train: Array, test: Array) -> Array:
    """Impute with scikit-learn's IterativeImputer (Bayesian ridge regressions), clipped to probabilities."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        filled = IterativeImputer(random_state=0, keep_empty_features=True).fit(train).transform(test)
    return np.clip(np.asarray(filled), CLIP, 1.0 - CLIP)


def fill_with_boosting(train: Array, test: Array, leaves: float | None = None) -> Array:
    """Impute with one HistGradientBoostingClassifier per column, which accepts missing values in the others.

    It has its default settings, or, if ``leaves`` is given, with trees of that size and early stopping.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    settings: dict[str, Any] = {} if leaves is None else {"max_leaf_nodes": int(leaves), "early_stopping": True}
    beliefs = np.array(fill_with_frequencies(train, test))
    for column in range(train.shape[1]):
        rows, gaps = ~np.isnan(train[:, column]), np.isnan(test[:, column])
        labels = train[rows, column]
        if not gaps.any() or np.unique(labels).size < 2:
            continue
        model = HistGradientBoostingClassifier(random_state=0, **settings)
        model.fit(np.delete(train[rows], column, axis=1), labels)
        beliefs[gaps, column] = model.predict_proba(np.delete(test[gaps], column, axis=1))[:, 1]
    return beliefs


def fill_with_chained_logistic(train: Array, test: Array, l1: float, rounds: int = ROUNDS) -> Array:
    """Impute with L1 logistic regressions, column by column, each on the others with their missing cells imputed.

    Regressions are fitted to training rows and fill training and test rows alike, for several rounds.
    """
    table = np.vstack([train, test])
    gaps = np.isnan(table)
    filled = np.where(gaps, fill_with_frequencies(train, table), table)
    mean = filled[: len(train)].mean(axis=0)
    for _ in range(rounds):
        for column in range(table.shape[1]):
            rows = np.flatnonzero(~gaps[: len(train), column])
            labels = table[rows, column]
            if np.unique(labels).size < 2:
                continue
            others = np.delete(filled - mean, column, axis=1)
            model = l1_logistic(l1).fit(others[rows], labels)
            filled[gaps[:, column], column] = model.predict_proba(others[gaps[:, column]])[:, 1]
    return filled[len(train) :]


def fill_with_field(train: Array, test: Array, l1: float, **params: Any) -> Array:
    """Impute with one field, learned from the incomplete rows; a missing cell gets its marginal.

    Further parameters are those of the field.
    """
    from sparsefield import MarkovField

    field = MarkovField(l1=l1, n_jobs=1, **params).fit(train)
    answers = field.infer(test).probabilities
    beliefs = np.zeros(test.shape)
    for column in range(test.shape[1]):
        name = f"x{column}"
        ones = np.asarray(field.states_[name], dtype=np.float64) == 1.0
        beliefs[:, column] = np.asarray(answers[name])[:, ones].sum(axis=1)
    return beliefs


@dataclass(frozen=True)
class Filler:
    """A filler is a method that imputes missing cells.

    Attributes
    ----------
    title : str
        Its name in words.
    fill : callable
        ``fill(train, test)`` gives the probability of 1 in every test cell; ``fill(train, test, value)``
        where something is to be chosen.
    tuned : str, optional
        The name of what is to be chosen.
    grid : tuple of float
        The values it may take, ascending.
    """

    title: str
    fill: Callable[..., Array]
    tuned: str | None = None
    grid: tuple[float, ...] = ()


METHODS: dict[str, Filler] = {
    "ours": Filler("sparsefield", fill_with_field, "l1", L1_GRID),
    "ours-mean-field": Filler("sparsefield, mean-field", partial(fill_with_field, missing="mean-field"), "l1", L1_GRID),
    "frequencies": Filler("column frequencies", fill_with_frequencies),
    "iterative": Filler("IterativeImputer", fill_with_iterative_imputer),
    "boosting": Filler("HistGradientBoosting per column, as it comes", fill_with_boosting),
    "boosting-tuned": Filler("HistGradientBoosting per column, tuned", fill_with_boosting, "leaves", LEAVES_GRID),
    "chained": Filler("chained L1 logistic", fill_with_chained_logistic, "l1", L1_GRID),
}


def _filler(gaps: IncompleteTable, method: str, seed: int, **ours: Any) -> Filler:
    if method == "oracle":
        assert gaps.source is not None
        source = gaps.source
        return Filler("oracle (true field)", lambda train, test: source.beliefs(test, seed=seed))
    filler = METHODS[method]
    return replace(filler, fill=partial(filler.fill, **ours)) if method.startswith("ours") else filler


def _row(gaps: IncompleteTable, filler: Filler, missing: float, seed: int) -> Row:
    row = _new_row(gaps.name, filler.title) | {"tuned": filler.tuned}
    choice: tuple[float, ...] = ()
    with threadpool_limits(limits=1):
        if filler.tuned:
            row["value"] = _best_value(gaps.train, filler, missing, seed)
            choice = (row["value"],)
        start = time.perf_counter()
        beliefs = filler.fill(gaps.train, gaps.test, *choice)
        row["seconds"] = time.perf_counter() - start
    row["accuracy"], row["log_loss"] = filled_scores(beliefs, gaps.truth, np.isnan(gaps.test))
    return row | {"status": "done"}


def _best_value(train: Array, filler: Filler, missing: float, seed: int) -> float:
    """Return the value that best imputes further cells, made missing in the last fifth of the training rows."""
    cut = len(train) - len(train) // 5
    fitted, known = train[:cut], train[cut:]
    probe = make_missing(known, missing, np.random.default_rng([seed, 1]))
    asked = np.isnan(probe) & ~np.isnan(known)
    return climb(filler.grid, lambda value: -filled_scores(filler.fill(fitted, probe, value), known, asked)[1])[0]


def _make_incomplete(
    name: str, rows: int | None, test_rows: int | None, missing: float, seed: int, nodes: int
) -> IncompleteTable:
    rng = np.random.default_rng([seed, 0])
    if name == "ising":
        rows, test_rows = rows or ISING_ROWS, test_rows or ISING_ROWS
        source = draw_ising(nodes, rows + test_rows, seed=seed)
        train, truth = source.samples[:rows], source.samples[rows:]
        title = f"Ising N={nodes}"
    else:
        source, splits, title = None, load_dataset(name), name
        if not isinstance(splits, Splits):
            raise DataError(f"'{name}' has no test split; take one of nltcs, plants, dna")
        train, truth = splits.train[: rows or TABLE_ROWS], splits.test[:test_rows]
    return IncompleteTable(title, make_missing(train, missing, rng), make_missing(truth, missing, rng), truth, source)


def _new_row(data: str, method: str) -> Row:
    empty = dict.fromkeys(["tuned", "value", "accuracy", "log_loss", "seconds"])
    return {"data": data, "method": method, "status": "", **empty}


def command(
    data: Annotated[list[str] | None, typer.Option("--data", help="ising, plants, ...; by default both.")] = None,
    rows: Annotated[int | None, typer.Option("--rows", min=10, help="At most this many rows.")] = None,
    missing: Annotated[float, typer.Option("--missing", help="Share of cells made missing.")] = 0.2,
    method: Annotated[list[str] | None, typer.Option("--method", help="Only these methods.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Predict missing cells: accuracy and log-loss beside scikit-learn's imputers."""
    names = tuple(data or ("ising", "plants"))
    found = run_fill(names, rows=rows, missing=missing, seed=seed, methods=method, report=print_message)
    print_rows(found, ("data", "method", "accuracy", "log_loss", "seconds", "tuned", "value"), as_json)
