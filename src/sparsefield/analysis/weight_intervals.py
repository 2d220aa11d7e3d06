"""Confidence intervals of the weights of a fitted field, which are estimated again without L1."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, get_args

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis.bootstrap import Progress, Resampling, count_from, resampled_rows
from sparsefield.analysis.confidence_intervals import ConfidenceIntervals, Method
from sparsefield.analysis.godambe import Estimate, minimize, sandwich
from sparsefield.analysis.imputed_estimates import ImputedEstimates
from sparsefield.analysis.interval_warnings import (
    describe_unknown_values,
    shown_once,
    warn_if_not_converged,
    warn_of_other_table,
    warn_of_penalty,
)
from sparsefield.analysis.multiple_imputation import impute
from sparsefield.analysis.refit_problem import RefitProblem
from sparsefield.analysis.refit_rows import compile_refit, dense_rows, refit_problem
from sparsefield.analysis.resampled_selection import select_again
from sparsefield.compute import Engine, Threads
from sparsefield.data import DenseDataset, LocalDataset
from sparsefield.errors import DataError
from sparsefield.estimators import FieldEstimator, MarkovField
from sparsefield.estimators.compiled_rows import read_by_name
from sparsefield.estimators.training import make_path, refit_l2, training_options
from sparsefield.induction import FixedGraph
from sparsefield.model import Field
from sparsefield.parameter_checks import raise_problems
from sparsefield.solver import Path, WarmStart, fingerprint
from sparsefield.solver.checkpoint import CheckpointFile, make_folder

WEIGHTS_FILE, SELECTIONS_FILE = "bootstrap-weights.checkpoint", "bootstrap-selections.checkpoint"


@dataclass(frozen=True)
class BootstrapOptions:
    """What determines the results of a bootstrap, besides data and field."""

    n: int
    selections: int
    seed: int
    l2: float

    @property
    def total(self) -> int:
        """Number of all resamples, those with another selection counted twice."""
        return self.n + self.selections


def confidence_intervals(
    field: FieldEstimator,
    X: Any,
    y: Any = None,
    *,
    method: Method = "godambe",
    level: float = 0.95,
    n: int = 1000,
    selections: int = 100,
    seed: int = 0,
    sample_weight: Any = None,
    drop_incomplete: bool = False,
    imputations: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> ConfidenceIntervals:
    """Estimate the weights of the selected features without L1, with l2 = max(l2, 0.01), and their uncertainty.

    A `PenaltyWarning` names features whose weights this l2 determines more than the rows do, as where two columns
    determine each other. The estimates are those of a refit (``refit=True``), also where the field has the smaller
    weights of an L1 fit, which have no valid interval. Intervals hold for the features of the field as if these had
    been given: that they were selected with the same rows is not taken into account.

    Parameters
    ----------
    field : fitted `MarkovField` or `CRFClassifier`
    X : the table that the field was learned from
    y : labels, for a `CRFClassifier`
    method : {"godambe", "bootstrap"}
        "godambe": normal intervals from the sandwich covariance of the pseudo-likelihood; takes a moment.
        "bootstrap": percentiles of estimates from resampled rows.
    level : probability of the intervals
    n : number of resamples, for "bootstrap"
    selections : number of resamples, of these, whose features are selected again at the same l1
        Their share is the column ``frequency``. This takes a fit for each; 0 leaves it out.
    seed : seed of the resamples
    sample_weight : (rows,) weights, if the fit had some
        Rows are what is drawn, each with its weight: a weight is no number of rows.
    drop_incomplete : whether rows with missing cells are left out instead of refused
        Weights are then estimated from the complete rows alone, which is biased where cells are not missing
        completely at random.
    imputations : number of times that missing cells are imputed, such as 20, for "godambe" of a `MarkovField`
        Weights are estimated from each table that `impute` draws, and pooled by Rubin's rules; intervals are those
        of Student's t. None refuses a table with missing cells, which it may have with ``drop_incomplete``.
    checkpoint : folder for the finished resamples of a bootstrap
        A bootstrap that was interrupted continues from there, with the same result.
    progress : function that is called with the number of resamples that are done and their total number

    Returns
    -------
    ConfidenceIntervals
        Its frames ``weights`` and ``edges``, and its method ``differences()``.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsefield import MarkovField, confidence_intervals
    >>> rain = np.random.default_rng(0).integers(0, 2, 400)
    >>> X = np.column_stack([rain, rain])
    >>> X[::5, 1] = 1 - X[::5, 1]
    >>> found = confidence_intervals(MarkovField(l1=10.0).fit(X), X).weights
    >>> [round(found[name][0], 2) for name in ("weight", "estimate", "standard_error", "low", "high")]
    [2.43, 2.72, 0.24, 2.25, 3.19]
    """
    check_is_fitted(field)
    _check_options(method, level, n, selections)
    if imputations is not None:
        _check_imputations(field, imputations, method, drop_incomplete)
        rows = dense_rows(field, X, y, sample_weight)
        if rows.tables[0].has_missing and isinstance(field, MarkovField):
            return _pooled_intervals(field, X, rows, imputations, level, seed, sample_weight, progress)
    rows, problem, incomplete = compile_refit(field, X, y, sample_weight, drop_incomplete, intervals=True)
    estimate, *own = _estimate_again(field.field_, problem)
    intervals = ConfidenceIntervals(
        field.field_, method, level, *own, l2=refit_l2(field), kind=field.kind_, n_complete=problem.n_rows,
        n_incomplete=incomplete,
    )  # fmt: skip
    if method == "godambe":
        return intervals
    resampling = Resampling(problem, estimate, resampled_rows(problem.n_rows, seed))
    options = BootstrapOptions(n, min(selections, n) if _selects(field) else 0, seed, float(problem.l2.max()))
    mark = fingerprint(rows, field.field_.features, field.field_.theta, options)
    files = _open_files(checkpoint, mark)
    draws = resampling.draw(n, field.n_jobs, count_from(progress, 0, options.total), files[0])
    selected = _select_again(field, rows, resampling, options, progress, files[1])
    _delete(files)
    covariances = {"covariance": _covariance(draws), "godambe_covariance": intervals.covariance}
    return replace(intervals, **covariances, draws=draws, selected=selected)


def _estimate_again(field: Field, problem: RefitProblem) -> tuple[Estimate, np.ndarray, np.ndarray]:
    """Return the refit, and the weights of its features with their covariance; warn of what makes them doubtful."""
    with Threads(1):  # products of matrices that run on several threads differ in their last bits
        estimate = minimize(problem, field.theta, problem.block.weight)
        covariance = sandwich(problem, estimate, problem.block.weight)
    warn_of_penalty(field, problem, estimate, covariance)
    warn_if_not_converged(estimate, stacklevel=4)
    features = slice(problem.n_biases, None)
    return estimate, estimate.theta[features], covariance[features, features]


def _check_imputations(field: FieldEstimator, imputations: Any, method: Method, drop_incomplete: bool) -> None:
    """Refuse a number of imputations that cannot be used, with all reasons."""
    problems = []
    if isinstance(imputations, bool) or not isinstance(imputations, Integral) or imputations < 2:
        problems.append(f"imputations must be a whole number from 2, got {imputations!r}.")
    if method != "godambe":
        problems.append(
            "imputations are for method='godambe', whose covariances can be pooled: leave method out, or pass the "
            "tables of impute one by one to a bootstrap."
        )
    if drop_incomplete:
        problems.append("imputations and drop_incomplete cannot be used together: remove one.")
    if not isinstance(field, MarkovField):
        problems.append("imputations are for a MarkovField: use drop_incomplete=True for labels.")
    raise_problems(problems)


def _pooled_intervals(
    field: MarkovField,
    X: Any,
    rows: DenseDataset,
    imputations: int,
    level: float,
    seed: int,
    sample_weight: Any,
    progress: Progress | None,
) -> ConfidenceIntervals:
    """Return the intervals of weights that are estimated from imputed tables, and pooled."""
    learned, (table,) = field.field_.record.n_rows, rows.tables
    if table.n_rows < learned:
        raise DataError(
            f"The table has {table.n_rows:,} rows, and the field was learned from {learned:,}, from which missing "
            "cells are imputed: pass the table of the fit, or drop_incomplete=True (--drop-incomplete)."
        )
    if table.unknown_rows:
        raise DataError(describe_unknown_values(read_by_name(field, X), table))
    warn_of_other_table(field.field_, table)
    n_imputed = int((table.codes() < 0).any(axis=0).sum())
    thetas, within = [], 0.0
    with shown_once():
        for imputed in impute(field, X, imputations, seed=seed, sample_weight=sample_weight, progress=progress):
            (completed,) = dense_rows(field, imputed, None, sample_weight).tables
            _, theta, covariance = _estimate_again(field.field_, refit_problem(field, completed))
            thetas.append(theta)
            within = within + covariance / imputations
    pooled = ImputedEstimates(np.array(thetas), np.asarray(within), n_imputed)
    own = pooled.estimates.mean(axis=0), pooled.total
    ways = {"l2": refit_l2(field), "kind": field.kind_, "n_complete": table.n_rows, "imputed": pooled}
    return ConfidenceIntervals(field.field_, "godambe", level, *own, **ways)


def _select_again(
    field: FieldEstimator,
    rows: DenseDataset,
    resampling: Resampling,
    options: BootstrapOptions,
    progress: Progress | None,
    saved: CheckpointFile | None,
) -> np.ndarray | None:
    """Return which features resamples select again (resamples, features); None where none is to be drawn."""
    if not options.selections:
        return None
    shown = count_from(progress, options.n, options.total)

    def make(resampled: LocalDataset, engine: Engine) -> Path:
        """Return a path that selects features as the fit did, and starts from its field."""
        training = training_options(field, field.l1_)
        return make_path(field, resampled, training, engine, start=WarmStart.from_field(field.field_))

    weighting, count = resampling.weighting, options.selections
    return select_again(rows, field.field_, make, weighting, count, field.n_jobs, shown, saved)


def _selects(field: FieldEstimator) -> bool:
    """Return whether the fit selected features."""
    return bool(field.l1_ > 0.0) and not isinstance(field.resolve("induction"), FixedGraph)


def _check_options(method: Any, level: Any, n: Any, selections: Any) -> None:
    """Refuse invalid options, all at once."""
    problems = []
    if method not in get_args(Method):
        problems.append(f"method must be 'godambe' or 'bootstrap', got {method!r}.")
    if not 0.0 < level < 1.0:
        problems.append(f"level must be between 0 and 1, got {level!r}.")
    if not isinstance(n, Integral) or n < 2:
        problems.append(f"n must be a whole number from 2, got {n!r}.")
    if not isinstance(selections, Integral) or selections < 0:
        problems.append(f"selections must be a whole number from 0, got {selections!r}.")
    raise_problems(problems)


def _covariance(draws: np.ndarray) -> np.ndarray:
    """Return the covariance (features, features) of draws (draws, features), also of no features."""
    centered = draws - draws.mean(axis=0)
    return centered.T @ centered / (len(draws) - 1)


Files = tuple[CheckpointFile | None, CheckpointFile | None]


def _open_files(folder: str | os.PathLike[str] | None, mark: str) -> Files:
    """Return the files of the finished resamples: their weights, and their selections."""
    if folder is None:
        return None, None
    path = make_folder(folder)
    return CheckpointFile(path / WEIGHTS_FILE, mark), CheckpointFile(path / SELECTIONS_FILE, mark)


def _delete(files: Files) -> None:
    for file in files:
        if file is not None:
            file.path.unlink(missing_ok=True)
