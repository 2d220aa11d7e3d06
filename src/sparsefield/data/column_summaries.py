"""Summaries of columns, from which their kinds and states are learned.

The summaries of partitions of the rows, as on a cluster, can be joined; a table in memory is one partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.data.column_types import ColumnType
from sparsefield.data.frames import Columns
from sparsefield.data.labels import (
    Label,
    RawColumn,
    as_numbers,
    as_objects,
    factorize,
    label_sort_key,
    unify_labels,
    whole_label,
)
from sparsefield.errors import DataError

SAMPLED_VALUES = 2**16
"""Number of distinct numbers of a column that are kept to find its levels."""

LARGEST_WEIGHT, SMALLEST_WEIGHT = 1e30, 1e-30
"""Bounds of the largest weight of a row: the optimizer multiplies and divides squares of sums of weights."""

Weight = np.ndarray | None
"""Weights of the rows, (rows,); None gives each row weight 1."""


class ColumnTraits(NamedTuple):
    """The properties of a column that decide about its kind."""

    numbers: bool
    """Whether all values are numbers; booleans and categories are not."""
    fractions: bool = False
    """Whether some values are not integers, or are numbers of days, which are numeric however few there are."""
    n_distinct: int = 0
    order: tuple[Label, ...] = ()
    """The categories of an ordered categorical column."""

    @property
    def numeric(self) -> bool:
        """Whether there are fractions or many distinct integers; text and booleans are never numeric."""
        return self.numbers and (self.fractions or self.n_distinct > config.NUMERIC_STATES)


class Moments(NamedTuple):
    """Sums over the cells of a column of numbers."""

    weight: float
    mean: float
    squares: float
    """Sum of weight x squared deviation from the mean."""

    @classmethod
    def join(cls, parts: Sequence[Moments]) -> Moments:
        total = sum(part.weight for part in parts)
        mean = sum(part.weight * part.mean for part in parts) / (total or 1.0)
        return cls(total, mean, sum(part.squares + part.weight * (part.mean - mean) ** 2 for part in parts))


@dataclass(frozen=True)
class ColumnSummary:
    """The distinct values of a column with their weights, and what tells its kind.

    Of more than `SAMPLED_VALUES` numbers there is a random sample: those with the smallest hashes, so that samples of
    partitions can be joined.
    """

    name: str
    labels: list[Label]
    """Distinct values in order of first occurrence; sorted within a partition."""
    totals: np.ndarray
    """Total weight of each label, (labels,)."""
    first_rows: np.ndarray
    """The first row that has each label, (labels,)."""
    n_rows: int
    n_cells: int
    """Number of cells that are not missing."""
    are_objects: bool
    """Whether the values are text or Python objects, as opposed to NumPy numbers or booleans."""
    traits: ColumnTraits
    moments: Moments | None
    """Those of all numbers, where ``labels`` are a sample."""
    column_type: ColumnType
    sampled: bool
    """Whether a sample of numbers is enough, since no kind is given by which they are categories."""

    @classmethod
    def of(
        cls, source: Columns, name: str, weight: Weight = None, *, numeric: bool = False, categorical: bool = False
    ) -> ColumnSummary:
        """Return the summary of a column, which is ``numeric`` or ``categorical`` if its kind is given."""
        if numeric:
            column = source.column(name)
            column = replace(column, values=as_numbers(column), categorical=False)
            are_objects, (labels, codes) = False, factorize(column)
        else:
            labels, codes, are_objects, column = source.categories(name)
        rows, order = np.flatnonzero(codes >= 0), source.order(name)
        codes = codes if len(rows) == len(codes) else codes[rows]
        first_rows = np.zeros(len(labels), dtype=np.int64)
        first_rows[codes[::-1]] = rows[::-1]
        totals = np.bincount(codes, None if weight is None else weight[rows], len(labels)).astype(config.FLOAT)
        traits = ColumnTraits(not len(rows) and not order, order=order)
        if len(rows) and column.holds_numbers:
            fractions = column.in_days or any(isinstance(label, float) and not label.is_integer() for label in labels)
            traits = ColumnTraits(True, fractions, len(labels))
        summary = cls(
            name, labels, totals, first_rows, source.n_rows, len(rows), are_objects, traits, None,
            source.column_type(name), traits.numbers and not categorical,
        )  # fmt: skip
        return summary._cut()

    @classmethod
    def join(cls, parts: Sequence[ColumnSummary]) -> ColumnSummary:
        """Return the summary of all rows from those of consecutive partitions."""
        if len(parts) == 1:
            return parts[0]
        known = [part for part in parts if part.n_cells] or list(parts[:1])
        # In pandas, booleans are objects only if some are missing: only text is really of another type.
        are_objects = all(part.are_objects for part in known)
        if not are_objects and any(isinstance(label, str) for part in known for label in part.labels):
            raise DataError(
                f"Column {parts[0].name!r} holds numbers in some partitions and text in others: give it one type in "
                "all of them, for instance with astype(str)."
            )
        number: dict[Label, int] = {}
        spelled: dict[Label, Label] = {}
        for label in (label for part in known for label in part.labels):
            number.setdefault(label, len(number))
            if type(spelled.setdefault(label, label)) is not type(label):
                spelled[label] = whole_label(label)
        totals, first_rows, start = np.zeros(len(number)), np.full(len(number), np.iinfo(np.int64).max), 0
        for part in parts:
            places = [number[label] for label in part.labels]
            totals[places] += part.totals
            first_rows[places] = np.minimum(first_rows[places], start + part.first_rows)
            start += part.n_rows
        orders = {part.traits.order for part in parts}
        traits = ColumnTraits(
            all(part.traits.numbers for part in parts),
            any(part.traits.fractions for part in parts),
            len(number),
            orders.pop() if len(orders) == 1 else (),
        )
        return replace(
            parts[0],
            labels=list(spelled.values()),
            totals=totals,
            first_rows=first_rows,
            n_rows=start,
            n_cells=sum(part.n_cells for part in parts),
            are_objects=are_objects,
            traits=traits,
            moments=Moments.join([part.find_moments() for part in known]) if any(p.moments for p in parts) else None,
            column_type=ColumnType.join([part.column_type for part in parts]),
            sampled=all(part.sampled for part in parts),
        )._cut()

    def _cut(self) -> ColumnSummary:
        if not self.sampled or len(self.labels) <= SAMPLED_VALUES:
            return self
        hashes = _hash_numbers(np.array(self.labels, dtype=config.FLOAT) + 0.0)
        chosen = np.sort(np.argpartition(hashes, SAMPLED_VALUES)[:SAMPLED_VALUES])
        return replace(
            self,
            labels=[self.labels[k] for k in chosen],
            totals=self.totals[chosen],
            first_rows=self.first_rows[chosen],
            moments=self.find_moments(),
        )

    def in_order(self) -> tuple[list[Label], np.ndarray]:
        """Return all labels, sorted and typed as in an unpartitioned column, and their totals."""
        order = sorted(range(len(self.labels)), key=lambda k: label_sort_key(self.labels[k]))
        labels, totals = unify_labels([self.labels[k] for k in order], self.are_objects), self.totals[order]
        position = {label: k for k, label in enumerate(dict.fromkeys(labels))}
        if len(position) < len(labels):  # large integers that round to the same float
            totals = np.bincount([position[label] for label in labels], totals)
        return list(position), totals

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the ascending values with a weight, and their totals."""
        values = as_numbers(RawColumn(self.name, as_objects(self.labels), np.ones(len(self.labels), dtype=bool))) + 0.0
        order = np.argsort(values)
        order = order[self.totals[order] > 0.0]
        return values[order], self.totals[order]

    def find_moments(self) -> Moments:
        """Return the moments of a column of numbers."""
        if self.moments is not None:
            return self.moments
        values, totals = self.numbers()
        weight = float(totals.sum())
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(values @ totals) / (weight or 1.0)
            squares = float(totals @ (values - mean) ** 2)
        if not np.isfinite([mean, squares]).all():
            raise DataError(f"Column {self.name!r} holds numbers too large to be squared: rescale it, or drop it.")
        return Moments(weight, mean, squares)


def _hash_numbers(values: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each number (the finalizer of SplitMix64)."""
    z = values.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def check_weights(sample_weight: Any, n: int, unit: str = "row") -> Weight:
    """Return the weights of rows, or of other units, as (n,) floats; None where there are none."""
    if sample_weight is None:
        return None
    try:
        weight = np.array(sample_weight, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"sample_weight has cells that are no numbers: give one number per {unit}.") from None
    weight = weight if weight.ndim else np.full(n, weight)
    if weight.shape != (n,):
        raise DataError(f"sample_weight.shape == {weight.shape}, expected ({n},): one weight per {unit}.")
    most = np.full(n, weight.max(initial=0.0))
    rules = {
        "weights are finite and not negative": np.isfinite(weight) & (weight >= 0.0),
        "all weights are zero, and at least one must be above zero": most > 0.0,
        f"sums of weights beyond {LARGEST_WEIGHT:.0e} overflow: divide all by a constant": weight <= LARGEST_WEIGHT,
        f"divisions by sums below {SMALLEST_WEIGHT:.0e} overflow: multiply all by a constant": most >= SMALLEST_WEIGHT,
    }
    for rule, fits in rules.items():
        if not fits.all():
            raise DataError(f"sample_weight of {unit} {fits.argmin()} is {weight[fits.argmin()]}: {rule}.")
    return weight
