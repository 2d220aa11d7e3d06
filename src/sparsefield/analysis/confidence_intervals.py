"""Confidence intervals of the weights and edges of a fitted field, which are estimated again without L1."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from scipy.stats import chi2, norm
from sklearn.utils.validation import check_is_fitted

from sparsefield.analysis import refit
from sparsefield.analysis.imputation import PooledEstimates, impute, pool, pooled_wald_test
from sparsefield.analysis.network import Network
from sparsefield.compute import Threads
from sparsefield.data import Dataset
from sparsefield.data.frame_building import Frame, make_frame, make_label_columns
from sparsefield.errors import DataError, PenaltyWarning, list_first
from sparsefield.estimators import FieldEstimator, MarkovField
from sparsefield.estimators.training import refit_l2
from sparsefield.model import Field
from sparsefield.model.feature_tables import feature_names, name_features
from sparsefield.objectives.curvature import wald_test
from sparsefield.options import raise_problems

Method = Literal["godambe", "bootstrap"]

DIFFERENCES_AT_A_TIME = 256
"""Differences between edges whose draws are in memory at a time."""

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
    level: float
    estimates: np.ndarray
    """(features,): the weights of the selected features without L1."""
    covariance: np.ndarray
    """(features, features): sandwich covariance; the mean of those of the imputed tables where cells were imputed."""
    draws: np.ndarray | None = None
    """(replicates, features): estimates from resampled rows; None for the method "godambe"."""
    imputed: np.ndarray | None = None
    """(imputations, features): the estimates from imputed tables, of which `estimates` is the mean."""
    l2: float = 0.0
    """L2 penalty of the estimates."""
    n_complete: int = 0
    """Number of rows without missing cells, from which weights were estimated unless cells were imputed."""
    n_incomplete: int = 0
    """Number of rows with missing cells, which were imputed or left out."""
    kind: str = "polars"
    """Kind of the frames."""

    def __repr__(self) -> str:
        how = "godambe" if self.draws is None else f"bootstrap, {len(self.draws):,} resamples"
        how += "" if self.imputed is None else f", {len(self.imputed):,} imputations"
        size = f"{len(self.estimates):,} weights and {len(self.network.strengths):,} edges"
        return f"<ConfidenceIntervals of {size}: {how}, level {self.level:g}; .weights, .edges>"

    @property
    def weights(self) -> Frame:
        """Frame of all features, strongest first: columns as in ``features_``, and the interval of each weight.

        ``weight`` is the weight in the field, which L1 may have shrunk; ``estimate`` the one without L1, to which
        ``standard_error``, ``low`` and ``high`` belong.
        """
        weights = np.concatenate([self.field.weights, self.field.conjunction_weights])
        order = np.argsort(-np.abs(weights), kind="stable")
        columns = {"weight": weights, **self._intervals(sp.eye_array(len(weights), format="csr"))}
        sorted_columns = {name: values[order] for name, values in columns.items()}
        return make_frame({**feature_names(self.field, order, self.kind), **sorted_columns}, self.kind)

    @property
    def edges(self) -> Frame:
        """Frame of all edges, strongest estimate first: variable_a, variable_b, and the interval of its signed weight.

        ``strength`` is the size of the weight in the field, as in ``edges_``. ``estimate`` is the weight without L1, of
        the linear part where there is one; an edge without a sign has ``sign`` 0 and the norm of its weights, with the
        interval along their direction. ``p_value`` is that of the Wald test that all weights of the edge are 0.
        """
        network, weights = self.network, np.concatenate([self.field.weights, self.field.conjunction_weights])
        signs, members = network.signs, [network.feature_numbers(k) for k in range(len(network.strengths))]
        columns = self._intervals(sp.diags_array(np.where(signs == 0, 1.0, signs)) @ network.directions)
        columns["low"] = np.where(signs == 0, np.maximum(columns["low"], 0.0), columns["low"])
        strengths = network.weigh(weights[None])[0][0]
        p_values = np.array([self._p_value(some) for some in members])
        names = self._edge_names(np.arange(len(signs)), ("variable_a", "variable_b"))
        return make_frame({**names, "sign": signs, "strength": strengths, **columns, "p_value": p_values}, self.kind)

    @property
    def by_feature(self) -> dict[str, tuple[float, float]]:
        """{name of a feature: (low, high)}, with names as in reports, such as "rain=1 & wet=1"."""
        columns = self._intervals(sp.eye_array(len(self.estimates), format="csr"))
        features = name_features(self.field, range(len(self.estimates)))
        ends = zip(columns["low"].tolist(), columns["high"].tolist(), strict=True)
        return dict(zip((feature.name for feature in features), ends, strict=True))

    def differences(self) -> Frame:
        """Return all pairs of edges, the stronger one first, with the difference of their strengths and its interval.

        The two edges are estimated from the same rows; their covariance is taken into account. P-values are not
        adjusted for the number of pairs.

        Returns
        -------
        frame
            variable_a, variable_b, other_a, other_b, difference, standard_error, low, high, p_value
        """
        directions = self.network.directions
        order = np.argsort(-(directions @ self.estimates), kind="stable")
        first, second = (order[side] for side in np.triu_indices(len(order), 1))
        between = sp.csr_array(directions[first] - directions[second])
        columns = self._intervals(between)
        difference, errors = columns.pop("estimate"), np.maximum(columns["standard_error"], np.finfo(float).tiny)
        normal = 2.0 * norm.sf(np.abs(difference) / errors)
        columns["p_value"] = normal if self.imputed is None else self._pool(between).p_value
        names = self._edge_names(first, ("variable_a", "variable_b"))
        names |= self._edge_names(second, ("other_a", "other_b"))
        return make_frame({**names, "difference": difference, **columns}, self.kind)

    @cached_property
    def standard_errors(self) -> np.ndarray:
        """(features,): standard errors of the estimates."""
        return self._intervals(sp.eye_array(len(self.estimates), format="csr"))["standard_error"]

    @cached_property
    def network(self) -> Network:
        """The network with the estimated weights; its edges are numbered by strength."""
        n = len(self.field.weights)
        return Network(replace(self.field, weights=self.estimates[:n], conjunction_weights=self.estimates[n:]))

    def _intervals(self, directions: Any) -> dict[str, np.ndarray]:
        """Return columns of estimates and intervals of combinations of weights, (combinations, features)."""
        estimates, tail = directions @ self.estimates, 0.5 * (1.0 - self.level)
        if self.imputed is not None:
            pooled = self._pool(directions)
            errors, (low, high) = pooled.standard_error, pooled.interval(self.level)
        elif self.draws is None:
            errors = self._sandwich_errors(directions)
            reach = norm.isf(tail) * errors
            low, high = estimates - reach, estimates + reach
        else:
            parts = [np.empty((3, 0))]
            for start in range(0, directions.shape[0], DIFFERENCES_AT_A_TIME):
                drawn = directions[start : start + DIFFERENCES_AT_A_TIME] @ self.draws.T
                limits = np.quantile(drawn, [tail, 1.0 - tail], axis=1)
                parts.append(np.vstack([drawn.std(axis=1, ddof=1), limits]))
            errors, low, high = np.concatenate(parts, axis=1)
        return {"estimate": estimates, "standard_error": errors, "low": low, "high": high}

    def _sandwich_errors(self, directions: Any) -> np.ndarray:
        variances = np.asarray(directions.multiply(directions @ self.covariance).sum(axis=1))
        return np.sqrt(np.maximum(variances, 0.0))

    def _pool(self, directions: Any) -> PooledEstimates:
        """Return combinations of weights, pooled over imputed tables by Rubin's rules."""
        assert self.imputed is not None
        return pool((directions @ self.imputed.T).T, np.tile(self._sandwich_errors(directions), (len(self.imputed), 1)))

    def _p_value(self, features: list[int]) -> float:
        """Return the p-value of the test that all of some weights are 0."""
        covariance = self.covariance[np.ix_(features, features)]
        if self.imputed is None:
            statistic, degrees = wald_test(self.estimates[features], covariance)
            return float(chi2.sf(statistic, degrees))
        estimates = self.imputed[:, features]
        if len(features) > 1:
            return pooled_wald_test(estimates, covariance)
        return float(pool(estimates, np.full(estimates.shape, np.sqrt(max(covariance[0, 0], 0.0)))).p_value[0])

    def _edge_names(self, edges: np.ndarray, names: tuple[str, str]) -> dict[str, Any]:
        labels, ends = self.network.labels, self.network.ends[edges].reshape(-1, 2)
        return make_label_columns({name: [labels[k] for k in ends[:, i]] for i, name in enumerate(names)}, self.kind)


def confidence_intervals(
    field: FieldEstimator,
    X: Any,
    y: Any = None,
    *,
    method: Method = "godambe",
    level: float = 0.95,
    n: int = 1000,
    seed: int = 0,
    sample_weight: Any = None,
    drop_incomplete: bool = False,
    imputations: int | None = None,
    progress: refit.Progress | None = None,
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
    seed : seed of the resamples
    sample_weight : (rows,) weights, if the fit had some
        Rows are what is drawn, each with its weight: a weight is no number of rows.
    drop_incomplete : whether rows with missing cells are left out instead of refused
        Weights are then estimated from the complete rows alone, which is biased where cells are not missing
        completely at random.
    imputations : number of times that missing cells are imputed, such as 20, for "godambe" of a `MarkovField`
        Weights are estimated from each table that `impute` draws, and pooled by Rubin's rules; intervals are those
        of Student's t. None refuses a table with missing cells, which it may have with ``drop_incomplete``.
    progress : function that is called with the number of resamples or imputations done and their total number

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
    >>> weights = confidence_intervals(MarkovField(l1=10.0).fit(X), X).weights
    >>> [round(weights[name][0], 2) for name in ("weight", "estimate", "standard_error", "low", "high")]
    [2.43, 2.72, 0.24, 2.25, 3.19]
    """
    check_is_fitted(field)
    _check_options(field, method, level, n, imputations, drop_incomplete)
    if imputations is not None:
        dataset = refit.dense_rows(field, X, y, sample_weight)
        if dataset.tables[0].has_missing and isinstance(field, MarkovField):
            return _pooled_intervals(field, X, dataset, imputations, level, seed, sample_weight, progress)
    problem, incomplete = refit.compile_refit(field, X, y, sample_weight, drop_incomplete)
    estimate, covariance = _estimate_again(field, problem)
    draws = None
    if method == "bootstrap":
        draws = refit.draw_weights(problem, estimate, n, field.n_jobs, seed=seed, progress=progress)
    return ConfidenceIntervals(
        field.field_, level, estimate.theta[problem.n_biases :], covariance, draws, None, refit_l2(field),
        problem.n_rows, incomplete, field.kind_,
    )  # fmt: skip


def _check_options(
    field: FieldEstimator, method: Any, level: Any, n: Any, imputations: Any, drop_incomplete: bool
) -> None:
    """Refuse invalid options, all at once."""
    wrong = {
        f"method must be 'godambe' or 'bootstrap', got {method!r}.": method not in get_args(Method),
        f"level must be between 0 and 1, got {level!r}.": not 0.0 < level < 1.0,
        f"n must be a whole number from 2, got {n!r}.": not isinstance(n, Integral) or n < 2,
    }
    if imputations is not None:
        has_labels = not isinstance(field, MarkovField)
        whole = isinstance(imputations, Integral) and not isinstance(imputations, bool)
        wrong |= {
            f"imputations must be a whole number from 2, got {imputations!r}.": not whole or imputations < 2,
            "imputations are for method='godambe', whose covariances can be pooled: remove one.": method != "godambe",
            "imputations and drop_incomplete cannot be used together: remove one.": drop_incomplete,
            "imputations are for a MarkovField: use drop_incomplete=True for labels.": has_labels,
        }
    raise_problems(problem for problem, is_wrong in wrong.items() if is_wrong)


def _estimate_again(field: FieldEstimator, problem: refit.RefitProblem) -> tuple[refit.Estimate, np.ndarray]:
    """Return the refit, and the covariance of the weights of features; warn of what makes them doubtful."""
    estimate = refit.refit_field(field, problem)
    with Threads(1):
        covariance = refit.sandwich(problem, estimate)[problem.n_biases :, problem.n_biases :]
    penalized = _penalized_features(problem, estimate, covariance)
    if len(penalized):
        names = [feature.name for feature in name_features(field.field_, penalized.tolist())]
        warnings.warn(
            f"The penalty l2 = {problem.l2.max():g} determines the weights of {list_first(names, form=repr)} more than "
            "the rows do, as where one column determines another: their intervals can be too narrow.",
            PenaltyWarning,
            stacklevel=3,
        )
    return estimate, covariance


def _penalized_features(problem: refit.RefitProblem, estimate: refit.Estimate, covariance: np.ndarray) -> np.ndarray:
    """Return the numbers of the features whose weights the L2 penalty determines more than the rows do.

    It is a large share of their curvature, or a Newton step without it leads out of a 95% interval. Where columns
    determine each other, the curvature grows with the weight, and only the step shows that the optimum is far away.
    """
    features = slice(problem.n_biases, None)
    curvature, l2 = estimate.hessian.diagonal()[features], problem.l2[features]
    step = refit.newton_solver(estimate.hessian + np.diag(problem.l2))(problem.l2 * estimate.theta)[features]
    reach = MAX_STEP * np.sqrt(np.maximum(covariance.diagonal(), 0.0))
    return np.flatnonzero((l2 > MAX_PENALTY_SHARE * (curvature + l2)) | (np.abs(step) > reach))


def _pooled_intervals(
    field: MarkovField,
    X: Any,
    dataset: Dataset,
    imputations: int,
    level: float,
    seed: int,
    sample_weight: Any,
    progress: refit.Progress | None,
) -> ConfidenceIntervals:
    """Return the intervals of weights that are estimated from imputed tables, and pooled."""
    (table,) = dataset.tables
    if table.unknown_rows:
        raise DataError(
            f"Column(s) {list_first(list(table.unknown_rows), form=repr)} have values that do not occur in training, "
            "for which nothing can be imputed: correct or empty these cells, or fit the field to this table."
        )
    refit.warn_of_other_table(field.field_, table)
    weights, covariances = [], np.zeros(())
    with warnings.catch_warnings(record=True) as caught:  # the same warning for every table
        warnings.simplefilter("always")
        for imputed in impute(field, X, imputations, seed=seed, sample_weight=sample_weight, progress=progress):
            (completed,) = refit.dense_rows(field, imputed, None, sample_weight).tables
            problem = refit.RefitProblem.of(field, completed)
            estimate, covariance = _estimate_again(field, problem)
            weights.append(estimate.theta[problem.n_biases :])
            covariances = covariances + covariance / imputations
    for warning in {warning.category: warning for warning in reversed(caught)}.values():
        warnings.warn(str(warning.message), warning.category, stacklevel=3)
    estimates, incomplete = np.array(weights), int((table.codes() < 0).any(axis=0).sum())
    return ConfidenceIntervals(
        field.field_, level, estimates.mean(axis=0), covariances, None, estimates, refit_l2(field),
        table.n_rows - incomplete, incomplete, field.kind_,
    )  # fmt: skip
