"""What two columns show by themselves, held against the weight that they have beside all others.

Alone in a field, a pair of states would have as its weight the log odds ratio of the two against their base states, so
that is what a weight is compared with. Where one side is a number, or a sum over neighbors, the counterpart is the
slope of a line between the two groups' means (that of linear discrimination), per unit of the field's scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsefield.data import DenseDataset
from sparsefield.viz.feature_sentences import Feature

__all__ = ["Association", "Surprise", "find_associations", "find_surprises", "log_odds_ratio", "slope"]

ADDED = 0.5
"""Added to each count, so that an empty one gives a finite ratio (Haldane and Anscombe)."""

WEAK = 0.5
"""Alone, a surprising pair shows less than this share of its weight, or the opposite."""

ERRORS_APART = 2.0
"""By so many standard errors at least."""


@dataclass(frozen=True)
class Association:
    """How two columns go together when all others are left out of account."""

    value: float
    """On the scale of a weight."""
    error: float
    """Standard error."""
    rows: int
    """Rows that speak of it."""


@dataclass(frozen=True)
class Surprise:
    """A feature whose weight its two columns alone would not suggest."""

    feature: Feature
    alone: Association
    opposite: bool
    """Whether the two alone show the opposite, beyond their error; else next to nothing, or too little."""

    @property
    def gap(self) -> float:
        """How far apart the two are, in the direction of the weight."""
        return abs(self.feature.weight) - math.copysign(1.0, self.feature.weight) * self.alone.value


def find_associations(sample: DenseDataset, features: Sequence[Feature]) -> list[Association | None]:
    """For each feature of two columns what these show alone; None for larger ones, or where no row speaks of it."""
    seen = _Columns(sample)
    return [_associate(seen, *feature.columns) if len(feature.columns) == 2 else None for feature in features]


def find_surprises(features: Sequence[Feature], alone: Sequence[Association | None]) -> list[Surprise]:
    """Features that show less than half of their weight alone, or the opposite; by two standard errors at least, and
    with a weight that is larger than these: one that hardly counts surprises nobody.

    The most surprising come first: those whose weight and association lie farthest apart. L1 draws weights towards 0,
    so a weight that exceeds what the pair shows alone is no work of the penalty.
    """
    found = []
    for feature, shown in zip(features, alone, strict=True):
        if shown is None:
            continue
        size, along = abs(feature.weight), math.copysign(1.0, feature.weight) * shown.value
        if along < WEAK * size and size > ERRORS_APART * shown.error and size - along > ERRORS_APART * shown.error:
            found.append(Surprise(feature, shown, along < -ERRORS_APART * shown.error))
    return sorted(found, key=lambda surprise: -surprise.gap)


def log_odds_ratio(both: float, first: float, second: float, neither: float) -> tuple[float, float]:
    """Log odds ratio of a table of counts, and its standard error; half a row is added to each count.

    Examples
    --------
    >>> log_odds_ratio(10, 10, 10, 10)[0]
    0.0
    """
    counts = [count + ADDED for count in (both, first, second, neither)]
    value = math.log(counts[0]) + math.log(counts[3]) - math.log(counts[1]) - math.log(counts[2])
    return value, math.sqrt(sum(1.0 / count for count in counts))


def slope(inside: np.ndarray, outside: np.ndarray) -> tuple[float, float] | None:
    """How much the log odds of being inside rise with a number, from its values inside and outside; with its error.

    None where one side has no values, or the number does not vary.
    """
    n, m = len(inside), len(outside)
    if n == 0 or m == 0 or n + m < 3:
        return None
    spread = (np.square(inside - inside.mean()).sum() + np.square(outside - outside.mean()).sum()) / (n + m - 2)
    if spread <= 1e-12:
        return None
    return float((inside.mean() - outside.mean()) / spread), math.sqrt((1 / n + 1 / m) / spread)


class _Columns:
    """Columns of a mega-sample by their number in the layout, each over all rows of its table."""

    def __init__(self, sample: DenseDataset) -> None:
        self.layout, self.tables = sample.layout, sample.tables
        self._codes = [table.codes() for table in sample.tables]
        self._kept: dict[int, np.ndarray] = {}

    def values(self, column: int) -> np.ndarray:
        table = int(self.layout.table_of_column[column])
        own = column - int(self.layout.column_starts[table])
        if column not in self._kept:
            self._kept[column] = np.concatenate([block.beliefs[own] for block in self.tables[table].blocks])
        return self._kept[column]

    def state(self, column: int) -> tuple[np.ndarray, np.ndarray]:
        """(rows,) bool each: where a target or observed category has the state, and where its base."""
        table, variable = self._owner(column)
        schema = self.layout.schemas[table]
        code = column - int(self.layout.column_starts[table]) - int(schema.offsets[variable]) + 1
        if variable < len(schema.targets):
            codes = self._codes[table][variable]
            return codes == code, codes == 0
        first = int(self.layout.column_starts[table] + schema.offsets[variable])
        columns = [self.values(first + k) for k in range(int(schema.widths[variable]))]
        base = np.all([own == 0.0 for own in columns], axis=0)  # a gap sits at its frequencies, so it is neither
        return columns[code - 1] == 1.0, base

    def is_category(self, column: int) -> bool:
        table, variable = self._owner(column)
        if variable < 0:
            return False
        schema = self.layout.schemas[table]
        targets = len(schema.targets)
        return variable < targets or not schema.observed[variable - targets].numeric

    def _owner(self, column: int) -> tuple[int, int]:
        return int(self.layout.table_of_column[column]), int(self.layout.variable_of_own_column[column])


def _associate(seen: _Columns, target: int, other: int) -> Association | None:
    on, off = seen.state(target)
    if seen.is_category(other):
        there, absent = seen.state(other)
        counts = [int(np.count_nonzero(a & b)) for a in (on, off) for b in (there, absent)]
        return Association(*log_odds_ratio(*counts), sum(counts)) if sum(counts) else None
    values = seen.values(other)
    found = slope(values[on], values[off])
    return None if found is None else Association(*found, int(on.sum() + off.sum()))
