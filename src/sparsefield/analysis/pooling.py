"""Rubin's rules, which pool the estimates of several imputations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.stats import f, t

from sparsefield.data import make_frame
from sparsefield.data.frame_building import Frame
from sparsefield.errors import DataError
from sparsefield.objectives.wald import wald_test

COLUMNS = (
    "estimate", "standard_error", "degrees_of_freedom", "statistic", "p_value", "low", "high", "missing_information",
    "relative_increase", "within", "between",
)  # fmt: skip
"""Columns of a frame of pooled estimates."""

MIN_SHARE = 1e-4
"""The share of variance due to missing values counts as at least this: degrees of freedom stay finite, as in mice."""


@dataclass(frozen=True, eq=False)
class PooledEstimates:
    """Estimates that were pooled over imputations by Rubin's rules; arrays have one entry for each estimate.

    Attributes
    ----------
    names : tuple of str
    estimate : mean of the estimates over the imputations
    standard_error : square root of the total variance: within + (1 + 1/m) x between
    degrees_of_freedom : those of Student's t, of Barnard and Rubin (1999) where the complete data have finitely many
    statistic, p_value : estimate / standard_error, and the two-sided p-value of Student's t that the estimate is 0
    low, high : confidence interval
    missing_information : fraction of missing information (mice's ``fmi``)
    relative_increase : relative increase in variance due to missing values (mice's ``riv``)
    within, between : mean variance of an estimate, and variance of the estimates between imputations
    n_imputations : int
    confidence : float
        Confidence level of the intervals.
    kind : str
        Library of the frames, that of the tables or estimates.
    """

    names: tuple[str, ...]
    estimate: np.ndarray
    standard_error: np.ndarray
    degrees_of_freedom: np.ndarray
    low: np.ndarray
    high: np.ndarray
    missing_information: np.ndarray
    relative_increase: np.ndarray
    within: np.ndarray
    between: np.ndarray
    n_imputations: int
    confidence: float = 0.95
    kind: str = "polars"

    @property
    def statistic(self) -> np.ndarray:
        """(estimates,): estimate / standard_error; infinite, or NaN for 0, where the error is 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.estimate / self.standard_error

    @property
    def p_value(self) -> np.ndarray:
        """(estimates,): two-sided p-value of Student's t that the estimate is 0."""
        return 2.0 * t.sf(np.abs(self.statistic), self.degrees_of_freedom)

    def to_frame(self, kind: str | None = None) -> Frame:
        """Return a frame with a row for each estimate.

        ``kind`` is the frame library, such as "pandas"; None takes that of the tables or estimates that were pooled.
        """
        columns = {name: getattr(self, name).tolist() for name in COLUMNS}
        return make_frame({"name": list(self.names), **columns}, self.kind if kind is None else kind)


def pool(
    estimates: Any,
    standard_errors: Any = None,
    *,
    variances: Any = None,
    complete_df: float | None = None,
    confidence: float = 0.95,
    names: Sequence[str] | None = None,
) -> PooledEstimates:
    """Pool the estimates of several imputed tables by Rubin's rules.

    Parameters
    ----------
    estimates : (imputations,) or (imputations, estimates) array, or frame
        A frame has a row for each imputation, and the names of the estimates as its columns.
    standard_errors : standard errors in the same form
    variances : squares of the standard errors, in place of these
    complete_df : degrees of freedom of the analysis of a complete table
        Rows less coefficients, for a regression. None is infinitely many: intervals are too narrow in small tables.
    confidence : confidence level of the intervals
    names : names of the estimates; None takes those of a frame, and else "estimate" or x0, x1, ...

    Examples
    --------
    >>> from sparsefield import pool
    >>> pooled = pool([10.2, 9.8, 10.4], [0.5, 0.52, 0.49], complete_df=98)
    >>> pooled.estimate.round(3).tolist(), pooled.standard_error.round(3).tolist()
    ([10.133], [0.615])
    """
    if (standard_errors is None) == (variances is None):
        raise ValueError("pool needs standard_errors or variances, one of the two.")
    values, columns, kind = _as_matrix(estimates, "estimates")
    if variances is None:
        squares = np.square(_as_matrix(standard_errors, "standard errors", columns)[0])
    else:
        squares = _as_matrix(variances, "variances", columns)[0]
    problems = _problems(values, squares, complete_df, confidence)
    labels = tuple(map(str, names)) if names is not None else columns or _default_names(values.shape[1])
    if len(labels) != values.shape[1]:
        problems.append(f"There are {values.shape[1]} estimates, but {len(labels)} names.")
    if problems:
        raise DataError(" ".join(problems))
    m = len(values)
    estimate, within, between = values.mean(axis=0), squares.mean(axis=0), values.var(axis=0, ddof=1)
    added = (1.0 + 1.0 / m) * between
    total = within + added
    share = np.divide(added, total, out=np.zeros(len(total)), where=total > 0.0)
    increase = np.divide(added, within, out=np.full(len(total), np.inf), where=within > 0.0)
    increase[added == 0.0] = 0.0
    df = _degrees_of_freedom(share, m, np.inf if complete_df is None else float(complete_df))
    # (increase + 2 / (df + 3)) / (increase + 1), written with the share, since the increase may be infinite.
    missing = share + (1.0 - share) * 2.0 / (df + 3.0)
    error = np.sqrt(total)
    half = t.ppf(0.5 + 0.5 * confidence, df) * error
    return PooledEstimates(
        labels, estimate, error, df, estimate - half, estimate + half, missing, increase, within, between, m,
        confidence, kind,
    )  # fmt: skip


def _degrees_of_freedom(share: np.ndarray, m: int, complete_df: float) -> np.ndarray:
    """Return the degrees of freedom of Barnard and Rubin; with infinite ``complete_df`` those of Rubin (1987).

    ``share`` is the share of the total variance that is due to missing values (mice's ``lambda``).
    """
    share = np.maximum(share, MIN_SHARE)
    old = (m - 1) / np.square(share)
    if np.isinf(complete_df):
        return old
    observed = (complete_df + 1.0) / (complete_df + 3.0) * complete_df * (1.0 - share)
    return old * observed / (old + observed)


def pool_results(results: Sequence[Any], complete_df: float | None = None, confidence: float = 0.95) -> PooledEstimates:
    """Pool the results of an analysis of each imputed table.

    A result has the attributes ``params`` and ``bse``, as those of statsmodels do, or is a pair of coefficients and
    standard errors. Coefficients are an array or {name: number}, and errors are in their order. Without
    ``complete_df``, the attribute ``df_resid`` of fitted models is taken, if all results have it.
    """
    if complete_df is None and all(getattr(result, "df_resid", None) is not None for result in results):
        complete_df = float(min(result.df_resid for result in results))
    pairs = [(result.params, result.bse) if hasattr(result, "params") else result for result in results]
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        kind = type(results[0]).__name__
        raise DataError(
            f"An analysis returned a {kind}: return a fitted model with params and bse, or a pair of coefficients and "
            "standard errors."
        )
    named = [list(map(str, dict(pair[0].items()))) if hasattr(pair[0], "items") else None for pair in pairs]
    if any(names != named[0] for names in named):
        raise DataError(f"The coefficients of all imputations need the same names in the same order, as {named[0]}.")
    values, errors = ([_numbers_of(pair[k]) for pair in pairs] for k in (0, 1))
    return pool(values, errors, complete_df=complete_df, confidence=confidence, names=named[0])


def _numbers_of(values: Any) -> Any:
    """Return the values of a mapping or a Series, and an array as it is."""
    return list(dict(values.items()).values()) if hasattr(values, "items") else np.atleast_1d(values)


def _default_names(count: int) -> tuple[str, ...]:
    return ("estimate",) if count == 1 else tuple(f"x{k}" for k in range(count))


def _as_matrix(values: Any, what: str, names: tuple[str, ...] = ()) -> tuple[np.ndarray, tuple[str, ...], str]:
    """Return (imputations, estimates), and the names and the library of a frame; ``names`` are those it has to have."""
    frame, own, kind = nw.from_native(values, eager_only=True, pass_through=True), (), "polars"
    if isinstance(frame, nw.DataFrame):
        own, kind, values = tuple(frame.columns), frame.implementation.value, frame.to_numpy()
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        array = np.empty(())
    if array.ndim not in (1, 2):
        raise DataError(
            f"The {what} must be an array or a frame of numbers, with a number or a row for each imputation."
        )
    if own and names and own != names:
        raise DataError(f"The {what} need the columns of the estimates, {', '.join(names)}, in their order.")
    return array.reshape(len(array), -1) if len(array) else np.empty((0, 1)), own, kind


def _problems(values: np.ndarray, squares: np.ndarray, complete_df: float | None, confidence: float) -> list[str]:
    problems = []
    if len(values) < 2:
        problems.append("Rubin's rules need the estimates of at least 2 imputations.")
    if values.shape != squares.shape:
        (rows, columns), (m, k) = values.shape, squares.shape
        problems.append(
            f"Estimates have the shape {rows} x {columns} (imputations x estimates), but standard errors or variances "
            f"{m} x {k}: both need a row for each imputation."
        )
    if not np.isfinite(values).all() or not np.isfinite(squares).all() or (squares < 0.0).any():
        problems.append("Estimates and variances must be finite numbers, and variances not negative.")
    if complete_df is not None and not complete_df > 0.0:
        problems.append(f"complete_df must be positive, got {complete_df!r}.")
    if not 0.0 < confidence < 1.0:
        problems.append(f"confidence must be between 0 and 1, got {confidence!r}.")
    return problems


@dataclass(frozen=True, eq=False)
class ImputedEstimates:
    """The weights of the same features, estimated from several imputed tables."""

    estimates: np.ndarray
    """(imputations, features)"""
    within: np.ndarray
    """(features, features): mean covariance of the estimates from one table."""
    n_rows: int = 0
    """Number of rows that have imputed cells."""

    @property
    def m(self) -> int:
        """Number of imputations."""
        return len(self.estimates)

    @property
    def total(self) -> np.ndarray:
        """(features, features): covariance of the mean of the estimates, within and between imputations."""
        centered = self.estimates - self.estimates.mean(axis=0)
        return self.within + (1.0 + 1.0 / self.m) * (centered.T @ centered) / (self.m - 1)

    def pool(self, directions: Any, level: float) -> PooledEstimates:
        """Pool combinations of weights (combinations, features), given as a sparse matrix."""
        values = (directions @ self.estimates.T).T
        variances = np.maximum(np.asarray(directions.multiply(directions @ self.within).sum(axis=1)), 0.0)
        names = [str(k) for k in range(len(variances))]
        return pool(values, variances=np.tile(variances, (self.m, 1)), confidence=level, names=names)

    def test(self, features: list[int]) -> float:
        """Return the p-value of the test that all of some weights are 0.

        For one weight it is that of Student's t, to which its interval belongs. For several it is that of the statistic
        D1 of Li, Raghunathan and Rubin (1991), in which the variance between imputations is proportional to that within
        them: few imputations do not determine its own covariance matrix.
        """
        own, within = self.estimates[:, features], self.within[np.ix_(features, features)]
        if len(features) == 1:
            variance = max(float(within[0, 0]), np.finfo(float).tiny)
            return float(pool(own, variances=np.full(own.shape, variance)).p_value[0])
        mean = own.mean(axis=0)
        statistic, k = wald_test(mean, within)
        spread = sum(wald_test(row - mean, within)[0] for row in own) / (self.m - 1)
        increase = max((1.0 + 1.0 / self.m) * spread / k, np.finfo(float).eps)
        return float(f.sf(statistic / (k * (1.0 + increase)), k, _degrees_of_statistic(k * (self.m - 1), k, increase)))


def _degrees_of_statistic(t: float, k: float, increase: float) -> float:
    """Return the degrees of freedom of the denominator of D1; ``t`` is k (m - 1)."""
    if t > 4.0:
        return 4.0 + (t - 4.0) * (1.0 + (1.0 - 2.0 / t) / increase) ** 2
    return 0.5 * t * (1.0 + 1.0 / k) * (1.0 + 1.0 / increase) ** 2
