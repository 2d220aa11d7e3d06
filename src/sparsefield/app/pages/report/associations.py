"""This module compares weights with the marginal association of their two columns.

Alone in a field, a pair of states would have as its weight the log odds ratio of the two against their reference
states, or against all other states where none is a reference state; so a weight is compared with that. For the score of
an ordinal or numeric column, or a sum over neighbors, and a state, the counterpart is the slope of linear discriminant
analysis between the two groups; for two scores it is the partial correlation weight of a normal distribution. Both are
per unit of the field's scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield.analysis.feature_sentences import Feature
from sparsefield.analysis.network import variable_at
from sparsefield.data import DenseDataset

PSEUDOCOUNT = 0.5
"""Added to each count, so that empty ones give a finite ratio (Haldane and Anscombe)."""

MAX_SHARE = 0.5
"""The marginal association of a surprising pair is below this share of its weight, or has the opposite sign."""

MIN_ERRORS = 2.0
"""Smallest distance between a surprising weight and the association, in standard errors."""


@dataclass(frozen=True)
class Association:
    """The marginal association of two columns, which ignores all others."""

    value: float
    """On the scale of a weight."""
    error: float
    """Standard error."""


@dataclass(frozen=True)
class Surprise:
    """A feature whose weight differs from the marginal association of its two columns."""

    feature: Feature
    association: Association
    opposite: bool
    """Whether the marginal association has the opposite sign, beyond its error."""
    distance: float
    """Distance between weight and association, in the direction of the weight."""


def find_associations(sample: DenseDataset, features: Sequence[Feature]) -> list[Association | None]:
    """Return the marginal association of each pair feature; None for conjunctions, or where no row determines it."""
    columns = _ColumnValues(sample)
    return [_associate(columns, *feature.columns) if len(feature.columns) == 2 else None for feature in features]


def find_surprises(features: Sequence[Feature], associations: Sequence[Association | None]) -> list[Surprise]:
    """Return the features whose marginal association is below half of their weight, or opposite, by two errors.

    The weight must also exceed two standard errors. The largest distances come first. The l1 penalty shrinks weights,
    so it does not explain a weight that exceeds the association.
    """
    found = []
    for feature, shown in zip(features, associations, strict=True):
        if shown is None:
            continue
        size, along = abs(feature.weight), math.copysign(1.0, feature.weight) * shown.value
        if along < MAX_SHARE * size and size > MIN_ERRORS * shown.error and size - along > MIN_ERRORS * shown.error:
            found.append(Surprise(feature, shown, along < -MIN_ERRORS * shown.error, size - along))
    return sorted(found, key=lambda surprise: -surprise.distance)


def log_odds_ratio(both: float, first: float, second: float, neither: float) -> tuple[float, float]:
    """Return the log odds ratio of four counts and its standard error; half a row is added to each count.

    Examples
    --------
    >>> log_odds_ratio(10, 10, 10, 10)[0]
    0.0
    """
    counts = [count + PSEUDOCOUNT for count in (both, first, second, neither)]
    value = math.log(counts[0]) + math.log(counts[3]) - math.log(counts[1]) - math.log(counts[2])
    return value, math.sqrt(sum(1.0 / count for count in counts))


def slope(inside: np.ndarray, outside: np.ndarray) -> tuple[float, float] | None:
    """Return the slope of the log odds of being inside against a score, and its standard error.

    None where one side has no values, or the column does not vary.
    """
    n, m = len(inside), len(outside)
    if n == 0 or m == 0 or n + m < 3:
        return None
    spread = (np.square(inside - inside.mean()).sum() + np.square(outside - outside.mean()).sum()) / (n + m - 2)
    if spread <= 1e-12:
        return None
    return float((inside.mean() - outside.mean()) / spread), math.sqrt((1 / n + 1 / m) / spread)


def score_weight(first: np.ndarray, second: np.ndarray) -> tuple[float, float] | None:
    """Return the weight of the product of two columns in a normal distribution, and its standard error.

    With unit variances and a correlation r this is r / (1 - r^2). None where a column does not vary, or determines the
    other.

    Examples
    --------
    >>> first = np.array([1.0, 1.0, -1.0, -1.0])
    >>> score_weight(first, np.array([1.0, -1.0, 1.0, -1.0]))[0]
    0.0
    """
    n = len(first)
    if n < 3:
        return None
    (a, c), (_, b) = np.cov(first, second, bias=True)
    rest = a * b - c * c
    if a <= 1e-12 or b <= 1e-12 or rest <= 1e-12 * a * b:
        return None
    r2 = c * c / (a * b)
    return float(c / rest), math.sqrt((1.0 + r2) / (n * a * b)) / (1.0 - r2)


class _ColumnValues:
    """Columns of a dataset by their number in the layout, each over all rows of its table."""

    def __init__(self, sample: DenseDataset) -> None:
        self.layout, self.tables = sample.layout, sample.tables
        self._codes = [table.codes() for table in sample.tables]
        self._cache: dict[int, np.ndarray] = {}

    def values(self, column: int) -> np.ndarray:
        table = int(self.layout.table_of_column[column])
        own = column - int(self.layout.column_starts[table])
        if column not in self._cache:
            self._cache[column] = np.concatenate([block.beliefs[own] for block in self.tables[table].blocks])
        return self._cache[column]

    def known(self, column: int) -> np.ndarray:
        """Return (rows,) bool: where a target has a value; True for other columns, which have a mean instead."""
        table, variable = int(self.layout.table_of_column[column]), int(self.layout.variable_of_own_column[column])
        if 0 <= variable < len(self.layout.schemas[table].targets):
            return self._codes[table][variable] >= 0
        return np.ones(self.tables[table].n_rows, dtype=bool)

    def state(self, column: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return (rows,) bool each: where a variable has the column's state, and where its reference or another state.

        None for a score or a sum over neighbors.
        """
        table, number = int(self.layout.table_of_column[column]), int(self.layout.variable_of_own_column[column])
        schema = self.layout.schemas[table]
        if number < 0:
            return None
        variable, first = variable_at(schema, number), int(self.layout.column_starts[table] + schema.offsets[number])
        if column - first < variable.n_scores:
            return None
        if number < len(schema.targets):
            codes = self._codes[table][number]
            on = (codes >= 0) & (variable.indicators[codes] == column - first)
            return on, codes == 0 if variable.has_reference else (codes >= 0) & ~on
        # A missing value of an observed column has its frequencies, so it is in neither group.
        if not variable.has_reference:
            return self.values(column) == 1.0, self.values(column) == 0.0
        columns = [self.values(first + k) for k in range(variable.width)]
        return columns[column - first] == 1.0, np.all([own == 0.0 for own in columns], axis=0)


def _associate(columns: _ColumnValues, target: int, other: int) -> Association | None:
    targets, others = columns.state(target), columns.state(other)
    if targets is not None and others is not None:
        counts = [int(np.count_nonzero(a & b)) for a in targets for b in others]
        return Association(*log_odds_ratio(*counts)) if sum(counts) else None
    known = columns.known(target) & columns.known(other)
    if targets is None and others is None:
        found = score_weight(columns.values(target)[known], columns.values(other)[known])
    else:
        values = columns.values(target if targets is None else other)
        on, off = targets or others or (known, known)
        found = slope(values[on & known], values[off & known])
    return None if found is None else Association(*found)
