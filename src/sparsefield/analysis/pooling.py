"""Rubin's rules, which pool the estimates of several imputed tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.stats import f, t

from sparsefield.data import make_frame
from sparsefield.data.frame_building import Frame
from sparsefield.errors import DataError
from sparsefield.objectives.curvature import wald_test
from sparsefield.options import raise_problems

COLUMNS = ("estimate", "standard_error", "degrees_of_freedom", "p_value")
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
    standard_error : square root of the mean variance within imputations plus (1 + 1/m) times that between them
    degrees_of_freedom : those of Student's t, of Barnard and Rubin (1999) where the complete data have finitely many
    kind : library of the frame, that of the frames that were pooled
    """

    names: tuple[str, ...]
    estimate: np.ndarray
    standard_error: np.ndarray
    degrees_of_freedom: np.ndarray
    kind: str = "polars"

    @property
    def p_value(self) -> np.ndarray:
        """(estimates,): two-sided p-value of Student's t that the estimate is 0."""
        errors = np.maximum(self.standard_error, np.finfo(float).tiny)
        with np.errstate(over="ignore"):
            return 2.0 * t.sf(np.abs(self.estimate) / errors, self.degrees_of_freedom)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper ends of the confidence intervals, (estimates,) each."""
        if not 0.0 < level < 1.0:
            raise DataError(f"level must be between 0 and 1, got {level!r}.")
        reach = t.ppf(0.5 + 0.5 * level, self.degrees_of_freedom) * self.standard_error
        return self.estimate - reach, self.estimate + reach

    def to_frame(self) -> Frame:
        """Return a frame with a row for each estimate: name, estimate, standard_error, degrees_of_freedom, p_value."""
        columns = {name: getattr(self, name).tolist() for name in COLUMNS}
        return make_frame({"name": list(self.names), **columns}, self.kind)


def pool(estimates: Any, standard_errors: Any = None, *, complete_df: float | None = None) -> PooledEstimates:
    """Pool the estimates of several imputed tables by Rubin's rules.

    Parameters
    ----------
    estimates : (imputations,) or (imputations, estimates) array; or a sequence of frames, one for each imputation
        Frames have a row for each estimate, in the same order, and the columns ``estimate`` and ``standard_error``;
        a column ``name`` names the estimates, which are otherwise x0, x1, ...
    standard_errors : array of the same shape, where the estimates are an array
    complete_df : degrees of freedom of the analysis of a complete table
        Rows less coefficients, for a regression. None is infinitely many: intervals are too narrow in small tables.

    Examples
    --------
    >>> from sparsefield import pool
    >>> pooled = pool([10.2, 9.8, 10.4], [0.5, 0.52, 0.49], complete_df=98)
    >>> pooled.estimate.round(3).tolist(), pooled.standard_error.round(3).tolist()
    ([10.133], [0.615])
    """
    names, kind = None, "polars"
    if standard_errors is None:
        estimates, standard_errors, names, kind = _read_frames(estimates)
    values, errors = _as_matrix(estimates, "estimates"), _as_matrix(standard_errors, "standard_errors")
    problems = []
    if len(values) < 2:
        problems.append("Rubin's rules need the estimates of at least 2 imputations.")
    if values.shape != errors.shape:
        problems.append(
            f"estimates have the shape {values.shape} (imputations, estimates), but standard_errors {errors.shape}: "
            "both need a row for each imputation."
        )
    if not np.isfinite(values).all() or not np.isfinite(errors).all() or (errors < 0.0).any():
        problems.append("Estimates and standard errors must be finite numbers, and standard errors not negative.")
    if complete_df is not None and not complete_df > 0.0:
        problems.append(f"complete_df must be positive, got {complete_df!r}.")
    raise_problems(problems)
    m = len(values)
    between = (1.0 + 1.0 / m) * values.var(axis=0, ddof=1)
    total = np.square(errors).mean(axis=0) + between
    share = np.divide(between, total, out=np.zeros(len(total)), where=total > 0.0)
    df = _degrees_of_freedom(share, m, np.inf if complete_df is None else float(complete_df))
    labels = tuple(f"x{k}" for k in range(len(total))) if names is None else names
    return PooledEstimates(labels, values.mean(axis=0), np.sqrt(total), df, kind)


def _read_frames(frames: Any) -> tuple[list[Any], list[Any], tuple[str, ...] | None, str]:
    """Return the estimates and standard errors of frames, the names of the estimates, and the library of the frames."""
    tables = [nw.from_native(frame, eager_only=True, pass_through=True) for frame in frames]
    if not tables or not all(isinstance(table, nw.DataFrame) for table in tables):
        raise DataError("pool needs estimates and standard_errors, or a sequence of frames, one for each imputation.")
    problems = [
        f"Frame {k} has no column {column!r}."
        for k, table in enumerate(tables)
        for column in ("estimate", "standard_error")
        if column not in table.columns
    ]
    named = [tuple(map(str, table["name"])) if "name" in table.columns else None for table in tables]
    if any(names != named[0] for names in named) or len({len(table) for table in tables}) > 1:
        problems.append("All frames need the same estimates in the same order.")
    raise_problems(problems)
    values, errors = ([table[column].to_numpy() for table in tables] for column in ("estimate", "standard_error"))
    return values, errors, named[0], tables[0].implementation.value


def _as_matrix(values: Any, what: str) -> np.ndarray:
    """Return numbers as an array (imputations, estimates)."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        array = np.empty(())
    if array.ndim not in (1, 2):
        raise DataError(f"{what} must be an array of numbers, with a number or a row for each imputation.")
    return array[:, None] if array.ndim == 1 else array


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


def pooled_wald_test(estimates: np.ndarray, within: np.ndarray) -> float:
    """Return the p-value of the test that several weights are 0: D1 of Li, Raghunathan and Rubin (1991).

    The variance between imputations is taken as proportional to that within them: few imputations do not determine its
    own covariance matrix.

    Parameters
    ----------
    estimates : (imputations, weights)
    within : (weights, weights), mean covariance of the estimates from one table
    """
    mean, m = estimates.mean(axis=0), len(estimates)
    statistic, k = wald_test(mean, within)
    spread = sum(wald_test(row - mean, within)[0] for row in estimates) / (m - 1)
    increase = max((1.0 + 1.0 / m) * spread / k, np.finfo(float).eps)
    free = k * (m - 1)
    if free > 4.0:
        degrees = 4.0 + (free - 4.0) * (1.0 + (1.0 - 2.0 / free) / increase) ** 2
    else:
        degrees = 0.5 * free * (1.0 + 1.0 / k) * (1.0 + 1.0 / increase) ** 2
    return float(f.sf(statistic / (k * (1.0 + increase)), k, degrees))
