"""This module pools the estimates of several imputations by Rubin's rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sparsefield.data import make_frame
from sparsefield.errors import DataError
from sparsefield.frame_protocol import Frame

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
    low, high : confidence interval
    missing_information : fraction of missing information (mice's ``fmi``)
    relative_increase : relative increase in variance due to missing values (mice's ``riv``)
    within, between : mean variance of an estimate, and variance of the estimates between imputations
    n_imputations : int
    confidence : float
        Confidence level of the intervals.
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

    def to_frame(self, kind: str = "polars") -> Frame:
        """Return a frame with a row for each estimate; ``kind`` is the frame library, such as "pandas"."""
        kept = [field.name for field in fields(self) if field.name not in ("names", "n_imputations", "confidence")]
        columns = {name: getattr(self, name).tolist() for name in kept}
        return make_frame({"name": list(self.names), **columns}, kind)

    def __len__(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        width = max(map(len, ("name", *self.names)))
        head = (
            f"{'name':<{width}}  {'estimate':>11}  {'std. error':>11}  {'low':>11}  {'high':>11}  missing information"
        )
        numbers = zip(self.estimate, self.standard_error, self.low, self.high, strict=True)
        lines = [
            f"{name:<{width}}  " + "  ".join(f"{value:11.5g}" for value in row) + f"  {share:19.1%}"
            for name, row, share in zip(self.names, numbers, self.missing_information, strict=True)
        ]
        return "\n".join([head, *lines])


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
    estimates : (imputations,) numbers, (imputations, estimates) array, or a mapping or Series for each imputation
    standard_errors : standard errors in the same form
    variances : squares of the standard errors, in place of these; or a covariance matrix for each imputation
    complete_df : degrees of freedom of the analysis of a complete table
        Rows less coefficients, for a regression. None is infinitely many: intervals are too narrow in small tables.
    confidence : confidence level of the intervals
    names : names of the estimates; None takes those of mappings, and else "estimate" or x0, x1, ...

    Examples
    --------
    >>> from sparsefield import pool
    >>> pooled = pool([10.2, 9.8, 10.4], [0.5, 0.52, 0.49], complete_df=98)
    >>> pooled.estimate.round(3).tolist(), pooled.standard_error.round(3).tolist()
    ([10.133], [0.615])
    """
    if (standard_errors is None) == (variances is None):
        raise ValueError("pool needs standard_errors or variances, one of the two.")
    values, found = _as_matrix(estimates, "estimates")
    if variances is None:
        squares = np.square(_as_matrix(standard_errors, "standard_errors", found)[0])
    else:
        squares = _variances(variances, values.shape, found)
    _check(values, squares, complete_df, confidence)
    own = tuple(map(str, names)) if names is not None else found or _default_names(values.shape[1])
    if len(own) != values.shape[1]:
        raise ValueError(f"There are {values.shape[1]} estimates, but {len(own)} names.")
    return _pool(values, squares, own, np.inf if complete_df is None else float(complete_df), confidence)


def _pool(
    values: np.ndarray, squares: np.ndarray, names: tuple[str, ...], complete_df: float, confidence: float
) -> PooledEstimates:
    from scipy.stats import t

    m = len(values)
    estimate, within, between = values.mean(axis=0), squares.mean(axis=0), values.var(axis=0, ddof=1)
    added = (1.0 + 1.0 / m) * between
    total = within + added
    share = np.divide(added, total, out=np.zeros(len(total)), where=total > 0.0)
    increase = np.divide(added, within, out=np.full(len(total), np.inf), where=within > 0.0)
    increase[added == 0.0] = 0.0
    df = degrees_of_freedom(share, m, complete_df)
    # (increase + 2 / (df + 3)) / (increase + 1), written with the share, since the increase may be infinite.
    missing = share + (1.0 - share) * 2.0 / (df + 3.0)
    error = np.sqrt(total)
    half = t.ppf(0.5 + 0.5 * confidence, df) * error
    return PooledEstimates(
        names, estimate, error, df, estimate - half, estimate + half, missing, increase, within, between, m, confidence
    )


def degrees_of_freedom(share: np.ndarray, m: int, complete_df: float = np.inf) -> np.ndarray:
    """Return the degrees of freedom of Barnard and Rubin; with infinite ``complete_df`` those of Rubin (1987).

    ``share`` is the share of the total variance that is due to missing values (mice's ``lambda``).
    """
    share = np.maximum(share, MIN_SHARE)
    old = (m - 1) / np.square(share)
    if np.isinf(complete_df):
        return old
    observed = (complete_df + 1.0) / (complete_df + 3.0) * complete_df * (1.0 - share)
    return old * observed / (old + observed)


def coefficients_of(result: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Return coefficients and variances of the result of an analysis, by name.

    ``result`` has the attributes ``params`` and ``bse``, as the results of statsmodels do; or it is a pair of
    coefficients and standard errors, or of coefficients and their covariance matrix, as arrays, mappings or Series.
    """
    names: tuple[str, ...] = ()
    if hasattr(result, "params") and hasattr(result, "bse"):
        model = getattr(result, "model", None)
        names = tuple(map(str, getattr(model, "exog_names", None) or ()))
        result = result.params, result.bse
    if not isinstance(result, tuple) or len(result) != 2:
        raise DataError(
            f"An analysis returned a {type(result).__name__}: return a fitted model with params and bse, or a pair of "
            "coefficients and standard errors, or of coefficients and their covariance matrix."
        )
    values, found = _as_vector(result[0], "coefficients")
    names = found or (names if len(names) == len(values) else _default_names(len(values)))
    errors = _covariance(result[1])
    if errors.shape == (len(values), len(values)) and errors.ndim == 2:
        variances = errors.diagonal()
    elif errors.shape == (len(values),):
        variances = np.square(_as_vector(result[1], "standard errors", found)[0])
    else:
        raise DataError(
            f"An analysis returned {len(values)} coefficients, and standard errors or a covariance of shape "
            f"{errors.shape}: both must fit together."
        )
    return dict(zip(names, values.tolist(), strict=True)), dict(zip(names, variances.tolist(), strict=True))


def _covariance(errors: Any) -> np.ndarray:
    if isinstance(errors, Mapping):
        return np.array(list(errors.values()), dtype=float)
    return np.atleast_1d(np.asarray(errors, dtype=float))


def _default_names(count: int) -> tuple[str, ...]:
    return ("estimate",) if count == 1 else tuple(f"x{k}" for k in range(count))


def _as_vector(value: Any, what: str, names: tuple[str, ...] = ()) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return numbers, in the order of names if these are given, and the names of a mapping or Series."""
    if isinstance(value, Mapping) or hasattr(value, "items"):
        named = {str(name): number for name, number in value.items()}
        if names and set(names) != set(named):
            odd = sorted(set(names) ^ set(named))[0]
            raise DataError(f"The {what} of some imputations lack {odd!r}: all imputations need the same names.")
        found = names or tuple(named)
        return np.array([named[name] for name in found], dtype=float), found
    return np.atleast_1d(np.asarray(value, dtype=float)), ()


def _as_matrix(values: Any, what: str, names: tuple[str, ...] = ()) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return (imputations, estimates), and the names of the estimates, if they have any."""
    if isinstance(values, np.ndarray) or not isinstance(values, Iterable):
        array = np.asarray(values, dtype=float)
        return (array[:, None] if array.ndim == 1 else array), names
    rows = []
    for value in values:
        row, found = _as_vector(value, what, names)
        names = names or found
        rows.append(row)
    if len({len(row) for row in rows}) > 1:
        raise DataError(f"The {what} differ in their number between imputations.")
    return np.array(rows, dtype=float).reshape(len(rows), -1), names


def _variances(variances: Any, shape: tuple[int, ...], names: tuple[str, ...]) -> np.ndarray:
    if not isinstance(variances, np.ndarray):
        variances = list(variances)
        if not isinstance(variances[0], Mapping) and np.ndim(variances[0]) == 2:
            variances = np.array(variances, dtype=float)
    if isinstance(variances, np.ndarray) and variances.ndim == 3:
        return variances.diagonal(axis1=1, axis2=2)
    found = _as_matrix(variances, "variances", names)[0]
    return found.reshape(shape) if found.size == np.prod(shape) else found


def _check(values: np.ndarray, squares: np.ndarray, complete_df: float | None, confidence: float) -> None:
    problems = []
    if values.ndim != 2 or len(values) < 2:
        problems.append("Rubin's rules need the estimates of at least 2 imputations.")
    if values.shape != squares.shape:
        problems.append(f"There are estimates of shape {values.shape}, but standard errors of shape {squares.shape}.")
    if not np.isfinite(values).all() or not np.isfinite(squares).all() or (squares < 0.0).any():
        problems.append("Estimates and variances must be finite numbers, and variances not negative.")
    if complete_df is not None and not complete_df > 0.0:
        problems.append(f"complete_df must be positive, got {complete_df!r}.")
    if not 0.0 < confidence < 1.0:
        problems.append(f"confidence must be between 0 and 1, got {confidence!r}.")
    if problems:
        raise DataError(" ".join(problems))
