"""This module holds the columns that a template sums over neighbors, and those whose pairs are candidates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.data.coding import PENALTY_FACTORS, ColumnClass
from sparsefield.data.schema import Schema

Array = np.ndarray

NEIGHBOR_COUNT = "(neighbor count)"
"""Name of the number of neighbors, in place of a variable's name."""

COUNT_COLUMN = -1
"""Column number of the number of neighbors, in place of an own column of the other table."""


@dataclass(frozen=True)
class NeighborView:
    """The columns of a source table, summed over the neighbors of each row of a target table."""

    template: int
    forward: bool
    """Whether the target table is the template's left end; a symmetric template has only this view."""
    target_table: int
    source_table: int
    columns: Array
    """Own columns of the source table, ascending; then COUNT_COLUMN, if the number of neighbors varies."""
    start: int
    """First column of the view among the columns of the target table."""

    @property
    def stop(self) -> int:
        return self.start + len(self.columns)


@dataclass(frozen=True)
class Side:
    """One end of a template in its matrix of candidates."""

    table: int
    columns: Array
    """Own columns of the table, states first; COUNT_COLUMN last, if the number of neighbors varies."""
    n_target_columns: int
    """Number of target states among the columns."""
    neighbor_columns: Array
    """Columns of the other side's table that hold the neighbor sums of ``columns``; empty if it has no targets."""
    classes: Array
    """The `ColumnClass` of each column."""

    def class_counts(self) -> tuple[Array, Array]:
        """Return the numbers of target columns and of observed columns of each class."""
        parts = np.split(self.classes, [self.n_target_columns])
        targets, observed = (np.bincount(part, minlength=len(ColumnClass)) for part in parts)
        return targets, observed


@dataclass(frozen=True)
class CandidateBlock:
    """The candidate pairs of one template as a matrix: columns of its left table by columns of its right table."""

    template: int
    left: Side
    right: Side
    mirrored: bool
    """Whether the matrix is symmetric: only pairs with a <= b are candidates."""
    within: bool
    """Whether both ends are the same row, so that states of one variable form no pair."""
    target_factor: float = 1.0
    """Factor of l1 for pairs of two target columns."""

    @property
    def n_candidates(self) -> int:
        """Number of pairs with at least one target column; pairs within one variable are included."""
        allowed = np.isfinite(PENALTY_FACTORS).astype(np.int64)
        (left, left_observed), (right, right_observed) = self.left.class_counts(), self.right.class_counts()
        if not self.mirrored:
            return int(left @ allowed @ (right + right_observed) + left_observed @ allowed @ right)
        alone = int(left @ allowed.diagonal())
        among = (int(left @ allowed @ left) - alone) // 2
        return among + (0 if self.within else alone) + int(left @ allowed @ left_observed)

    @property
    def has_unit_factors(self) -> bool:
        """Return whether all columns are plain and the factors of l1 are 1."""
        return self.target_factor == 1.0 and not (self.left.classes.any() or self.right.classes.any())

    def factors(self, a: Array, b: Array) -> Array:
        """Return the factors of l1 for pairs, given by positions among the left and the right columns."""
        if self.has_unit_factors:
            return np.ones(np.broadcast_shapes(a.shape, b.shape))
        found = PENALTY_FACTORS[self.left.classes[a], self.right.classes[b]]
        if self.target_factor == 1.0:
            return found
        both = (a < self.left.n_target_columns) & (b < self.right.n_target_columns)
        return np.where(both, self.target_factor * found, found)


def classes_of(schema: Schema, columns: Array) -> Array:
    """Return the `ColumnClass` of some columns of a table, which may be `COUNT_COLUMN` even if it has no columns."""
    classes = np.full(len(columns), ColumnClass.PLAIN, dtype=np.int8)
    own = columns != COUNT_COLUMN
    classes[own] = schema.column_classes[columns[own]]
    return classes
