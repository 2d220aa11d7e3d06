"""This module pools the estimates of several imputations by Rubin's rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsefield.data import make_frame
from sparsefield.errors import DataError
from sparsefield.frame_protocol import Frame

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
        from scipy.stats import t

        return 2.0 * t.sf(np.abs(self.statistic), self.degrees_of_freedom)

    def to_frame(self, kind: str | None = None) -> Frame:
        """Return a frame with a row for each estimate.

        ``kind`` is the frame library, such as "pandas"; None takes that of the tables or estimates that were pooled.
        """
        columns = {name: getattr(self, name).tolist() for name in COLUMNS}
        return make_frame({"name": list(self.names), **columns}, self.kind if kind is None else kind)

    def __len__(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        width = max(map(len, ("name", *self.names)))
        head = (
            f"{'name':<{width}}  {'estimate':>11}  {'std. error':>11}  {'low':>11}  {'high':>11}  {'t':>11}  {'p':>11}"
            "  missing information"
        )
        shown = self.estimate, self.standard_error, self.low, self.high, self.statistic, self.p_value
        numbers = zip(*shown, strict=True)
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
    estimates : (imputations,) numbers, (imputations, estimates) array or frame, or a mapping or Series for each
        A frame has a row for each imputation, and the names of the estimates as its columns.
    standard_errors : standard errors in the same form
    variances : squares of the standard errors, in place of these; or a covariance matrix for each imputation
    complete_df : degrees of freedom of the analysis of a complete table
        Rows less coefficients, for a regression. None is infinitely many: intervals are too narrow in small tables.
    confidence : confidence level of the intervals
    names : names of the estimates; None takes those of mappings and frames, and else "estimate" or x0, x1, ...

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
        squares = _variances(variances, found)
    _check(values, squares, complete_df, confidence)
    own = tuple(map(str, names)) if names is not None else found or _default_names(values.shape[1])
    if len(own) != values.shape[1]:
        raise ValueError(f"There are {values.shape[1]} estimates, but {len(own)} names.")
    found_kind = kind_of(estimates)
    return _pool(values, squares, own, np.inf if complete_df is None else float(complete_df), confidence, found_kind)


def _pool(
    values: np.ndarray, squares: np.ndarray, names: tuple[str, ...], complete_df: float, confidence: float, kind: str
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
        names, estimate, error, df, estimate - half, estimate + half, missing, increase, within, between, m, confidence,
        kind,
    )  # fmt: skip


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
    if isinstance(value, Mapping) or (hasattr(value, "items") and np.ndim(value) == 1):
        named = {str(name): number for name, number in value.items()}
        found = _same_names(tuple(named), names, what)
        return _as_numbers([named[name] for name in found], what), found
    numbers = np.atleast_1d(_as_numbers(value, what))
    if numbers.ndim > 1:
        raise DataError(f"The {what} of an imputation have {numbers.ndim} dimensions: pass a row of numbers for each.")
    return numbers, ()


def _as_matrix(values: Any, what: str, names: tuple[str, ...] = ()) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return (imputations, estimates), and the names of the estimates, if they have any."""
    frame = _as_frame(values)
    if frame is not None:
        return _read_frame(frame, what, names)
    if isinstance(values, Mapping):
        raise DataError(f"The {what} are one mapping: pass a list that has a mapping for each imputation.")
    if isinstance(values, np.ndarray) or not isinstance(values, Iterable):
        array = _as_numbers(values, what)
        if array.ndim not in (1, 2):
            raise DataError(f"The {what} have {array.ndim} dimensions: pass a number or a row for each imputation.")
        return (array[:, None] if array.ndim == 1 else array), names
    rows = []
    for value in values:
        row, found = _as_vector(value, what, names)
        names = names or found
        rows.append(row)
    if len({len(row) for row in rows}) > 1:
        raise DataError(f"The {what} differ in their number between imputations.")
    return np.array(rows) if rows else np.empty((0, 1)), names


def _as_frame(values: Any) -> Any:
    """Return a frame of narwhals, or None for anything that is no frame."""
    import narwhals.stable.v2 as nw

    frame = nw.from_native(values, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def kind_of(estimates: Any) -> str:
    """Return the library of a frame, or of the Series in a list, such as "pandas"; of others "polars"."""
    import narwhals.stable.v2 as nw

    first = estimates[0] if isinstance(estimates, (list, tuple)) and len(estimates) else estimates
    found = nw.from_native(first, allow_series=True, pass_through=True)
    return found.implementation.value if isinstance(found, (nw.DataFrame, nw.Series)) else "polars"


def _read_frame(frame: Any, what: str, names: tuple[str, ...]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the numbers of a frame with a row for each imputation, in the order of names if these are given."""
    own = tuple(map(str, frame.columns))
    found = _same_names(own, names, what)
    return _as_numbers(frame.to_numpy(), what)[:, [own.index(name) for name in found]], found


def _same_names(own: tuple[str, ...], names: tuple[str, ...], what: str) -> tuple[str, ...]:
    """Return the order of names: the given one, if there is any, which must have the same names."""
    if names and set(names) != set(own):
        odd = sorted(set(names) ^ set(own))[0]
        raise DataError(f"The {what} of some imputations lack {odd!r}: all imputations need the same names.")
    return names or own


def _as_numbers(values: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise DataError(
            f"The {what} are not all numbers: pass a number or a row of them for each imputation."
        ) from None


def _variances(variances: Any, names: tuple[str, ...]) -> np.ndarray:
    """Return (imputations, estimates) from variances, or from a covariance matrix for each imputation."""
    if _as_frame(variances) is None and not isinstance(variances, np.ndarray | Mapping):
        variances = list(variances) if isinstance(variances, Iterable) else variances
        if isinstance(variances, list) and variances and all(np.ndim(each) == 2 for each in variances):
            variances = _as_numbers(variances, "covariance matrices")
    if isinstance(variances, np.ndarray) and variances.ndim == 3:
        if variances.shape[1] != variances.shape[2]:
            raise DataError(f"Covariance matrices must be square, but are {variances.shape[1]} x {variances.shape[2]}.")
        return variances.diagonal(axis1=1, axis2=2)
    return _as_matrix(variances, "variances", names)[0]


def _check(values: np.ndarray, squares: np.ndarray, complete_df: float | None, confidence: float) -> None:
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
    if problems:
        raise DataError(" ".join(problems))
