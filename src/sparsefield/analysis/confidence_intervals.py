"""Confidence intervals of the weights and edges of a fitted field, which are estimated again without L1."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from scipy.stats import chi2, norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis.bootstrap import Progress, Resampling, count_from, resampled_rows, select_again
from sparsefield.analysis.feature_sentences import name_features
from sparsefield.analysis.multiple_imputation import impute
from sparsefield.analysis.network import Network
from sparsefield.analysis.pooling import ImputedEstimates
from sparsefield.analysis.refit import (
    MOST_NAMES,
    Estimate,
    RefitProblem,
    compile_refit,
    dense_rows,
    list_names,
    minimize,
    sandwich,
    solve,
    warn_of_other_table,
)
from sparsefield.compute import Threads
from sparsefield.data import DenseDataset
from sparsefield.data.frame_building import Frame, make_frame, make_label_columns
from sparsefield.data.table import encode_column
from sparsefield.errors import DataError, PenaltyWarning
from sparsefield.estimators import FieldEstimator, MarkovField
from sparsefield.estimators.compiled_rows import read_by_name
from sparsefield.estimators.training import refit_l2
from sparsefield.induction import FixedGraph
from sparsefield.model import Field
from sparsefield.model.feature_tables import feature_names
from sparsefield.objectives.wald import wald_test
from sparsefield.options import raise_problems
from sparsefield.solver import fingerprint
from sparsefield.solver.checkpoint import CheckpointFile, make_folder

Method = Literal["godambe", "bootstrap"]

DIFFERENCES_AT_A_TIME = 256
"""Differences between edges whose draws are in memory at a time."""

CHECKPOINTS = "bootstrap-weights.checkpoint", "bootstrap-selections.checkpoint"

MAX_PENALTY_SHARE = 0.2
"""Largest share of the L2 penalty in the curvature of the loss along a weight, above which its interval is doubtful."""

MAX_STEP = 1.96
"""Standard errors by which a Newton step without L2 may change a weight."""


@dataclass(frozen=True, eq=False)
class ConfidenceIntervals:
    """The weights of a field, estimated without L1 but with L2, with their uncertainty.

    `weights` and `edges` are frames; `differences` tests whether edges differ in strength.
    """

    field: Field
    method: Method
    level: float
    estimates: np.ndarray
    """(features,): the weights of the selected features without L1."""
    covariance: np.ndarray
    """(features, features)"""
    godambe_covariance: np.ndarray | None = None
    """(features, features), for tests of several weights, where `covariance` is that of draws: few draws have too low a
    rank."""
    draws: np.ndarray | None = None
    """(replicates, features): estimates from resampled rows; None for the method "godambe"."""
    selected: np.ndarray | None = None
    """(resamples, features), bool: which features resamples at the same l1 select; None where none was drawn."""
    l2: float = 0.0
    """L2 penalty of the estimates."""
    kind: str = "polars"
    """Kind of the frames."""
    n_complete: int = 0
    """Number of rows that were used: complete ones, or all if missing cells were imputed."""
    n_incomplete: int = 0
    """Number of rows with missing cells, which were left out."""
    imputed: ImputedEstimates | None = None
    """The estimates from imputed tables, of which `estimates` is the mean; None where no cells were imputed."""

    def __repr__(self) -> str:
        drawn = "" if self.draws is None else f", {len(self.draws):,} resamples"
        drawn += "" if self.imputed is None else f", {self.imputed.m:,} imputations"
        size = f"{len(self.estimates):,} weights and {len(self.network.strengths):,} edges"
        how = f"{self.n_complete:,} rows: {self.method}{drawn}, level {self.level:g}"
        return f"<ConfidenceIntervals of {size} from {how}; .weights, .edges>"

    @property
    def frequencies(self) -> np.ndarray | None:
        """(features,): share of the resamples at the same l1 that select each feature; None where none was drawn."""
        return None if self.selected is None else self.selected.mean(axis=0)

    @property
    def weights(self) -> Frame:
        """Frame of all features, strongest first: columns as in ``features_``, and the interval of each weight.

        ``weight`` is the weight in the field, which L1 may have shrunk; ``estimate`` the one without L1, to which
        ``standard_error``, ``low`` and ``high`` belong. ``frequency`` is the share of resamples at the same l1 that
        select the feature, and ``missing_information`` the fraction of the information on the weight that is missing
        where cells were imputed.
        """
        own = np.concatenate([self.field.weights, self.field.conjunction_weights])
        order = np.argsort(-np.abs(own), kind="stable")
        columns = {"weight": own, **self._intervals(sp.eye_array(len(own), format="csr"))}
        columns |= {} if self.frequencies is None else {"frequency": self.frequencies}
        sorted_columns = {name: values[order] for name, values in columns.items()}
        return make_frame({**feature_names(self.field, order, self.kind), **sorted_columns}, self.kind)

    @property
    def edges(self) -> Frame:
        """Frame of all edges, strongest estimate first: variable_a, variable_b, and the interval of its signed weight.

        ``strength`` is the norm of the weights in the field, as in ``edges_``. ``estimate`` is sign x the norm of the
        estimated weights; an edge without a sign has ``sign`` 0 and a positive estimate. Intervals are those of the
        weights along the direction of the estimate. ``p_value`` is that of the Wald test that all weights are 0.
        ``frequency`` is the share of resamples at the same l1 that select any of its features.
        """
        signs, own = self.network.signs, np.concatenate([self.field.weights, self.field.conjunction_weights])
        columns = self._intervals(sp.diags_array(np.where(signs == 0, 1.0, signs)) @ self.network.directions())
        columns["low"] = np.where(signs == 0, np.maximum(columns["low"], 0.0), columns["low"])
        names = ("estimate", "standard_error", "low", "high")
        columns = {
            "sign": signs,
            "strength": np.array([np.linalg.norm(own[members]) for members in self._members]),
            **{name: columns.pop(name) for name in names},
            "p_value": np.array([self._p_value(members) for members in self._members]),
            **columns,
        }
        if self.selected is not None:
            columns["frequency"] = np.array([self.selected[:, some].any(axis=1).mean() for some in self._members])
        every = np.arange(len(signs))
        return make_frame({**self._edge_names(every, ("variable_a", "variable_b")), **columns}, self.kind)

    @property
    def by_feature(self) -> dict[str, tuple[float, float]]:
        """{name of a feature: (low, high)}, with names as in reports, such as "rain=1 & wet=1"."""
        columns = self._intervals(sp.eye_array(len(self.estimates), format="csr"))
        features = name_features(self.field, range(len(self.estimates)))
        ends = zip(columns["low"].tolist(), columns["high"].tolist(), strict=True)
        return dict(zip((feature.name for feature in features), ends, strict=True))

    def differences(self, edges: Sequence[tuple[str, str]] | None = None, *, signed: bool = False) -> Frame:
        """Return all pairs of edges, the stronger one first, with the difference of their strengths and its interval.

        The two edges are estimated from the same rows; their covariance is taken into account. P-values are not
        adjusted for the number of pairs.

        Parameters
        ----------
        edges : pairs of column names
            Only these edges are compared; None compares all.
        signed : whether weights are compared with their signs, so that -0.5 and 0.5 differ
            Edges without a sign are left out then.

        Returns
        -------
        frame
            variable_a, variable_b, other_a, other_b, difference, standard_error, low, high, p_value
        """
        chosen = self._find_edges(edges)
        directions = self.network.directions()
        if signed:
            chosen = chosen[self.network.signs[chosen] != 0]
            directions = sp.diags_array(self.network.signs.astype(float)) @ directions
        values = directions @ self.estimates
        chosen = chosen[np.argsort(-values[chosen], kind="stable")]
        first, second = (chosen[side] for side in np.triu_indices(len(chosen), 1))
        between = sp.csr_array(directions[first] - directions[second])
        columns = self._intervals(between)
        errors, difference = columns["standard_error"], columns.pop("estimate")
        if self.imputed is None:
            columns["p_value"] = 2.0 * norm.sf(np.abs(difference) / np.maximum(errors, np.finfo(float).tiny))
        else:
            columns["p_value"] = self.imputed.pool(between, self.level).p_value
            del columns["missing_information"]
        names = self._edge_names(first, ("variable_a", "variable_b"))
        names |= self._edge_names(second, ("other_a", "other_b"))
        return make_frame({**names, "difference": difference, **columns}, self.kind)

    @cached_property
    def standard_errors(self) -> np.ndarray:
        """(features,): standard errors of the estimates."""
        return np.sqrt(np.maximum(self.covariance.diagonal(), 0.0))

    @cached_property
    def network(self) -> Network:
        """The network with the estimated weights; its edges are numbered by strength."""
        n = len(self.field.weights)
        return Network(replace(self.field, weights=self.estimates[:n], conjunction_weights=self.estimates[n:]))

    @cached_property
    def _members(self) -> list[list[int]]:
        """The numbers of the features of each edge."""
        return [self.network.feature_numbers(k) for k in range(len(self.network.strengths))]

    def _intervals(self, directions: Any) -> dict[str, np.ndarray]:
        """Return columns of estimates and intervals of combinations of weights, (combinations, features)."""
        estimates, tail = directions @ self.estimates, 0.5 * (1.0 - self.level)
        errors = np.sqrt(np.maximum(np.asarray(directions.multiply(directions @ self.covariance).sum(axis=1)), 0.0))
        columns = {"estimate": estimates, "standard_error": errors}
        if self.imputed is not None:
            pooled = self.imputed.pool(directions, self.level)
            columns |= {"low": pooled.low, "high": pooled.high, "missing_information": pooled.missing_information}
        elif self.draws is None:
            reach = norm.isf(tail) * errors
            columns |= {"low": estimates - reach, "high": estimates + reach}
        else:
            limits = [np.empty((2, 0))]
            for start in range(0, directions.shape[0], DIFFERENCES_AT_A_TIME):
                drawn = directions[start : start + DIFFERENCES_AT_A_TIME] @ self.draws.T
                limits.append(np.quantile(drawn, [tail, 1.0 - tail], axis=1))
            columns["low"], columns["high"] = np.concatenate(limits, axis=1)
        return columns

    def _p_value(self, features: list[int]) -> float:
        if self.imputed is not None:
            return self.imputed.test(features)
        covariance = self.covariance if self.godambe_covariance is None else self.godambe_covariance
        statistic, degrees = wald_test(self.estimates[features], covariance[np.ix_(features, features)])
        return float(chi2.sf(statistic, degrees))

    def _edge_names(self, edges: np.ndarray, names: tuple[str, str]) -> dict[str, Any]:
        labels, ends = self.network.labels, self.network.ends[edges].reshape(-1, 2)
        return make_label_columns({name: [labels[k] for k in ends[:, i]] for i, name in enumerate(names)}, self.kind)

    def _find_edges(self, wanted: Sequence[tuple[str, str]] | None) -> np.ndarray:
        """Return the numbers of some edges, or of all; pairs of columns that share no feature are refused."""
        labels, ends = self.network.labels, self.network.ends.tolist()
        if wanted is None:
            return np.arange(len(ends))
        numbers = {frozenset((labels[a], labels[b])): k for k, (a, b) in enumerate(ends)}
        absent = [pair for pair in wanted if frozenset(pair) not in numbers]
        if absent:
            shown = ", ".join(" - ".join(map(str, pair)) for pair in absent)
            raise DataError(f"The field has no edge {shown}: `edges_` lists all.")
        return np.unique([numbers[frozenset(pair)] for pair in wanted])


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
    _check_options(field, method, level, n, selections, imputations, drop_incomplete)
    if imputations is not None:
        rows = dense_rows(field, X, y, sample_weight)
        if rows.tables[0].has_missing and isinstance(field, MarkovField):
            return _pooled_intervals(field, X, rows, imputations, level, seed, sample_weight, progress)
    rows, problem, incomplete = compile_refit(field, X, y, sample_weight, drop_incomplete, intervals=True)
    estimate, weights, covariance = _estimate_again(field.field_, problem)
    sizes: dict[str, Any] = {
        "l2": refit_l2(field),
        "kind": field.kind_,
        "n_complete": problem.n_rows,
        "n_incomplete": incomplete,
    }
    intervals = ConfidenceIntervals(field.field_, method, level, weights, covariance, **sizes)
    if method == "godambe":
        return intervals
    resampling = Resampling(problem, estimate, resampled_rows(problem.n_rows, seed))
    selects = bool(field.l1_ > 0.0) and not isinstance(field.resolve("induction"), FixedGraph)
    count = min(selections, n) if selects else 0
    files: list[CheckpointFile | None] = [None, None]
    if checkpoint is not None:
        options = np.array([n, count, seed, problem.l2.max()])
        mark = fingerprint(rows, field.field_.features, field.field_.theta, options)
        files = [CheckpointFile(make_folder(checkpoint) / name, mark) for name in CHECKPOINTS]
    draws = resampling.draw(n, field.n_jobs, count_from(progress, 0, n + count), files[0])
    selected = None
    if count:
        shown = count_from(progress, n, n + count)
        selected = select_again(field, rows, resampling.weighting, count, shown, files[1])
    for file in files:
        if file is not None:
            file.path.unlink(missing_ok=True)
    centered = draws - draws.mean(axis=0)
    covariances = {"covariance": centered.T @ centered / (n - 1), "godambe_covariance": intervals.covariance}
    return replace(intervals, **covariances, draws=draws, selected=selected)


def _check_options(
    field: FieldEstimator, method: Any, level: Any, n: Any, selections: Any, imputations: Any, drop_incomplete: bool
) -> None:
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
    if imputations is None:
        return raise_problems(problems)
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
    return raise_problems(problems)


def _estimate_again(field: Field, problem: RefitProblem) -> tuple[Estimate, np.ndarray, np.ndarray]:
    """Return the refit, and the weights of its features with their covariance; warn of what makes them doubtful."""
    with Threads(1):  # products of matrices that run on several threads differ in their last bits
        estimate = minimize(problem, field.theta, problem.rows.weight)
        covariance = sandwich(problem, estimate)
    penalized = _penalized_features(problem, estimate, covariance)
    if len(penalized):
        names = ", ".join(feature.name for feature in name_features(field, penalized[:MOST_NAMES].tolist()))
        more = f" and {len(penalized) - MOST_NAMES:,} more" if len(penalized) > MOST_NAMES else ""
        warnings.warn(
            f"The penalty l2 = {problem.l2.max():g} determines the weights of {names}{more} more than the rows do, "
            "as where one column determines another: their intervals can be too narrow.",
            PenaltyWarning,
            stacklevel=3,
        )
    warn_if_not_converged(estimate, stacklevel=4)
    features = slice(problem.n_biases, None)
    return estimate, estimate.theta[features], covariance[features, features]


def warn_if_not_converged(estimate: Estimate, stacklevel: int = 3) -> None:
    """Warn of estimates that are not at the optimum of the refit; ``stacklevel`` leads to the code of the user."""
    if not estimate.converged:
        warnings.warn(
            "The estimates without L1 did not converge, so their intervals are not reliable: raise l2 or l1.",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )


def _penalized_features(problem: RefitProblem, estimate: Estimate, covariance: np.ndarray) -> np.ndarray:
    """Return the numbers of the features whose weights the L2 penalty determines more than the rows do.

    It is a large share of their curvature, or a Newton step without it leads out of a 95% interval. Where columns
    determine each other, the curvature grows with the weight, and only the step shows that the optimum is far away.
    """
    features = slice(problem.n_biases, None)
    curvature, l2 = estimate.hessian.diagonal()[features], problem.l2[features]
    step = solve(estimate.hessian + np.diag(problem.l2), problem.l2 * estimate.theta)[features]
    reach = MAX_STEP * np.sqrt(np.maximum(covariance.diagonal()[features], 0.0))
    return np.flatnonzero((l2 > MAX_PENALTY_SHARE * (curvature + l2)) | (np.abs(step) > reach))


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
        names, examples = list(table.unknown_rows), {}
        for variable in table.schema.targets:
            if variable.name in names:
                encode_column(read_by_name(field, X), variable, examples)
        raise DataError(
            f"Column(s) {list_names(names)} have values that do not occur in training (such as "
            f"{examples[names[0]].example!r} in {names[0]!r}), for which nothing can be imputed: correct or empty "
            "these cells, or fit the field to this table."
        )
    warn_of_other_table(field.field_, table)
    thetas, within = [], np.zeros(())
    with warnings.catch_warnings(record=True) as caught:  # the same warning for every table
        warnings.simplefilter("always")
        for imputed in impute(field, X, imputations, seed=seed, sample_weight=sample_weight, progress=progress):
            (completed,) = dense_rows(field, imputed, None, sample_weight).tables
            _, theta, covariance = _estimate_again(field.field_, RefitProblem.of(field, completed))
            thetas.append(theta)
            within = within + covariance / imputations
    for warning in {warning.category: warning for warning in reversed(caught)}.values():
        warnings.warn(str(warning.message), warning.category, stacklevel=3)
    pooled = ImputedEstimates(np.array(thetas), within, int((table.codes() < 0).any(axis=0).sum()))
    ways = {"l2": refit_l2(field), "kind": field.kind_, "n_complete": table.n_rows, "imputed": pooled}
    return ConfidenceIntervals(field.field_, "godambe", level, pooled.estimates.mean(axis=0), pooled.total, **ways)
