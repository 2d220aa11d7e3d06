"""Summaries of columns, from which their kinds and states are learned.

The summaries of partitions of the rows, as on a cluster, can be joined; a table in memory is one partition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.data.column_types import ColumnType
from sparsefield.data.frames import Columns
from sparsefield.data.labels import (
    BEYOND_FLOATS,
    Label,
    RawColumn,
    as_numbers,
    distinct_whole_numbers,
    factorize,
    label_sort_key,
    unify_labels,
    whole_label,
)
from sparsefield.errors import DataError

SAMPLED_VALUES = 2**16
"""Number of distinct numbers of a column that are kept to find its levels."""

LARGEST_WEIGHT, SMALLEST_WEIGHT = 1e60, 1e-60
"""Bounds of the largest weight of a row: the optimizer multiplies and divides squares of sums of weights."""

FIRST_CELLS = 2**12
"""Number of cells that are searched for distinct values first: most numeric columns have enough of them there."""


Weight = np.ndarray | None
"""Weights of the rows, (rows,); None gives each row weight 1."""


class CategoricalCells(NamedTuple):
    """The cells of a categorical column."""

    labels: Sequence[Label]
    codes: np.ndarray
    """Index into ``labels``, -1 for a missing cell, (rows,)."""
    are_objects: bool
    """Whether the values are text or Python objects, as opposed to NumPy numbers or booleans."""
    complete: bool
    """Whether no cell is missing."""


def read_categories(source: Columns, name: str) -> CategoricalCells:
    """Return the sorted distinct labels of a column in a partition, and their index per cell."""
    text = source.text_categories(name)
    if text is not None:
        labels, codes = text
        return CategoricalCells(labels, codes, are_objects=True, complete=bool((codes >= 0).all()))
    raw = source.column(name)
    labels, codes = factorize(raw, part=True)
    return CategoricalCells(labels, codes, raw.values.dtype.kind not in "biuf", len(raw.values) == len(raw.present))


@dataclass(frozen=True)
class LabelSummary:
    """The labels of a categorical column, with the total weight of their cells."""

    name: str
    labels: Sequence[Label]
    """Labels in order of first occurrence; sorted within the first partition."""
    totals: np.ndarray
    """Total weight of each label, (labels,)."""
    n_cells: int
    """Number of cells that are not missing."""
    are_objects: bool | None
    """As in `CategoricalCells`; None if all cells are missing."""

    @classmethod
    def of(cls, source: Columns, weight: Weight, name: str) -> LabelSummary:
        labels, codes, are_objects, complete = read_categories(source, name)
        present = None if complete else codes >= 0
        codes = codes if present is None else codes[present]
        if not len(codes):
            return cls(name, [], np.zeros(0), 0, None)
        return cls(name, labels, _totals(codes, len(labels), weight, present), len(codes), are_objects)

    @classmethod
    def join(cls, parts: Sequence[LabelSummary]) -> LabelSummary:
        parts = [part for part in parts if part.n_cells] or list(parts[:1])
        first = parts[0]
        if len(parts) == 1:
            return first
        # In pandas, booleans are objects only if some are missing: only text is really of another type.
        are_objects = all(part.are_objects for part in parts)
        if not are_objects and any(isinstance(label, str) for part in parts for label in part.labels):
            raise DataError(
                f"Column {first.name!r} holds numbers in some partitions and text in others: give it one type in all "
                "of them, for instance with astype(str)."
            )
        number: dict[Label, int] = {}
        spelled: dict[Label, Label] = {}
        for part in parts:
            for label in part.labels:
                number.setdefault(label, len(number))
                if type(spelled.setdefault(label, label)) is not type(label):
                    spelled[label] = whole_label(label)
        totals = np.zeros(len(number))
        for part in parts:
            totals[[number[label] for label in part.labels]] += part.totals
        return cls(first.name, list(spelled.values()), totals, sum(part.n_cells for part in parts), are_objects)

    def in_order(self) -> tuple[list[Label], np.ndarray]:
        """Return all labels, sorted and typed as in an unpartitioned column, and their totals."""
        order = sorted(range(len(self.labels)), key=lambda k: label_sort_key(self.labels[k]))
        labels, totals = unify_labels([self.labels[k] for k in order], self.are_objects), self.totals[order]
        if len(set(labels)) < len(labels):  # large integers that round to the same float
            position = {label: k for k, label in enumerate(dict.fromkeys(labels))}
            sums = np.zeros(len(position))
            np.add.at(sums, [position[label] for label in labels], totals)
            return list(position), sums
        return labels, totals


class ColumnTraits(NamedTuple):
    """The properties of a column that decide about its kind."""

    numbers: bool
    """Whether all values are numbers; booleans are not."""
    fractions: bool
    """Whether some values are not integers, or are numbers of days, which are numeric however few there are."""
    distinct: frozenset[float]
    """Distinct integers: all of them, or enough to decide."""
    order: tuple[Label, ...] = ()
    """The categories of an ordered categorical column."""

    @property
    def numeric(self) -> bool:
        """Whether there are fractions or many distinct integers; text and booleans are never numeric."""
        return self.numbers and (self.fractions or len(self.distinct) > config.NUMERIC_STATES)

    @classmethod
    def of(cls, column: RawColumn) -> ColumnTraits:
        values = column.values
        if not len(values):
            return cls(True, False, frozenset())
        if column.categorical:
            return cls(False, False, frozenset())
        if column.in_days:
            return cls(True, True, frozenset())
        if values.dtype.kind == "O":
            are_numbers = all(isinstance(v, (int, float, np.number)) and not isinstance(v, bool) for v in values)
            values = _as_floats(column.name, values) if are_numbers else values
        if values.dtype.kind not in "iuf":
            return cls(False, False, frozenset())
        # Infinity counts as a fraction: it is a number that `as_numbers` will refuse.
        if values.dtype.kind == "f" and not (np.isfinite(values) & (values == np.floor(values))).all():
            return cls(True, True, frozenset())
        distinct = distinct_whole_numbers(values[:FIRST_CELLS])
        if len(distinct) <= config.NUMERIC_STATES and len(values) > FIRST_CELLS:
            distinct = distinct_whole_numbers(values)
        return cls(True, False, frozenset(distinct[: config.NUMERIC_STATES + 1].tolist()))

    @classmethod
    def join(cls, parts: Sequence[ColumnTraits]) -> ColumnTraits:
        distinct = islice(frozenset().union(*(part.distinct for part in parts)), config.NUMERIC_STATES + 1)
        orders = {part.order for part in parts}
        return cls(
            all(part.numbers for part in parts),
            any(part.fractions for part in parts),
            frozenset(distinct),
            orders.pop() if len(orders) == 1 else (),
        )


def _as_floats(name: str, values: np.ndarray) -> np.ndarray:
    try:
        return values.astype(config.FLOAT)
    except OverflowError:
        raise DataError(f"Column {name!r} holds {BEYOND_FLOATS}") from None


class Moments(NamedTuple):
    """Sums over the cells of a numeric column."""

    weight: float
    weighted: float
    """Sum of weight x value."""

    @classmethod
    def of(cls, column: RawColumn, weight: Weight) -> Moments:
        present = float(np.count_nonzero(column.present)) if weight is None else float(weight[column.present].sum())
        return cls(present, _weighted_sum(column, as_numbers(column), weight))

    @classmethod
    def join(cls, parts: Sequence[Moments]) -> Moments:
        return cls(sum(part.weight for part in parts), sum(part.weighted for part in parts))

    @property
    def mean(self) -> float:
        return self.weighted / self.weight


class NumberSummary(NamedTuple):
    """The distinct values of a numeric column with their total weights, or a random sample of these values.

    A value is in the sample if its hash is among the smallest ones, so that samples of partitions can be joined.
    """

    values: np.ndarray
    """Ascending, (values,)."""
    totals: np.ndarray
    """Total weight of the cells with each value, (values,)."""

    @classmethod
    def of(cls, column: RawColumn, weight: Weight) -> NumberSummary:
        values, codes = np.unique(as_numbers(column) + 0.0, return_inverse=True)
        return cls(values, _totals(codes, len(values), weight, column.present))._cut()

    @classmethod
    def join(cls, parts: Sequence[NumberSummary]) -> NumberSummary:
        values, codes = np.unique(np.concatenate([part.values for part in parts]), return_inverse=True)
        return cls(values, np.bincount(codes, np.concatenate([part.totals for part in parts]), len(values)))._cut()

    def _cut(self) -> NumberSummary:
        if len(self.values) <= SAMPLED_VALUES:
            return self
        hashes = _hash_numbers(self.values)
        kept = np.sort(np.argpartition(hashes, SAMPLED_VALUES)[:SAMPLED_VALUES])
        return NumberSummary(self.values[kept], self.totals[kept])


def _hash_numbers(values: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each number (the finalizer of SplitMix64)."""
    z = values.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _totals(codes: np.ndarray, n_codes: int, weight: Weight, present: np.ndarray | None) -> np.ndarray:
    """Return the total weight of each code, (n_codes,); ``codes`` has one entry per ``present`` row, None for all."""
    if weight is None:
        return np.bincount(codes, minlength=n_codes).astype(config.FLOAT)
    return np.bincount(codes, weight if present is None else weight[present], n_codes)


def _weighted_sum(column: RawColumn, values: np.ndarray, weight: Weight) -> float:
    """Return the sum of weight x value over the cells of a column."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float((values if weight is None else values * weight[column.present]).sum())
    if not np.isfinite(total):
        raise DataError(
            f"Column {column.name!r} holds numbers that are too large to be squared and weighted: rescale it, or drop "
            "it."
        )
    return total


def refuse_odd_weights(weight: np.ndarray, first: int = 0) -> None:
    """Raise a DataError if weights are not finite, or negative; ``first`` is the number of the first row."""
    odd = ~np.isfinite(weight) | (weight < 0)
    if odd.any():
        row = int(np.argmax(odd))
        raise DataError(f"sample_weight of row {first + row} is {weight[row]}: weights are finite and not negative.")
    if weight.max(initial=0.0) > LARGEST_WEIGHT:
        row = int(np.argmax(weight))
        raise DataError(
            f"sample_weight of row {first + row} is {weight[row]}, and sums of weights beyond {LARGEST_WEIGHT:.0e} "
            "overflow: divide all weights by a constant."
        )


def refuse_small_weights(largest: float) -> None:
    """Raise a DataError if the largest of all weights is zero, or so small that divisions by it overflow."""
    if largest == 0.0:
        raise DataError("All sample weights are zero: at least one row must have a weight above zero.")
    if largest < SMALLEST_WEIGHT:
        raise DataError(
            f"sample_weight has no weight above {largest}, and divisions by sums below {SMALLEST_WEIGHT:.0e} overflow: "
            "multiply all weights by a constant."
        )


def find_traits(source: Columns, weight: Weight, names: Sequence[str]) -> list[ColumnTraits]:
    """Return what decides about the kinds of columns; ``weight`` is not used."""
    orders = [source.ordered_categories(name) for name in names]
    return [
        ColumnTraits(False, False, frozenset(), order) if order else ColumnTraits.of(source.column(name))
        for name, order in zip(names, orders, strict=True)
    ]


def find_types(source: Columns, weight: Weight, names: Sequence[str]) -> list[ColumnType]:
    """Return the types of columns of dates, times and categories; ``weight`` is not used."""
    return [source.column_type(name) for name in names]


def summarize_columns(
    source: Columns, weight: Weight, names: Sequence[str], numbers: Collection[str]
) -> list[LabelSummary | Moments]:
    """Return the moments of the columns in ``numbers``, and the labels of all others."""
    return [
        Moments.of(source.column(name), weight) if name in numbers else LabelSummary.of(source, weight, name)
        for name in names
    ]


def summarize_numbers(source: Columns, weight: Weight, names: Sequence[str]) -> list[NumberSummary]:
    """Return the distinct values of numeric columns."""
    return [NumberSummary.of(source.column(name), weight) for name in names]


def sum_squared_deviations(source: Columns, weight: Weight, means: Mapping[str, float]) -> list[float]:
    """Return the sum of weight x squared deviation from the mean, for each column."""
    sums = []
    for name, mean in means.items():
        column = source.column(name)
        with np.errstate(over="ignore"):
            squares = (as_numbers(column) - mean) ** 2
        sums.append(_weighted_sum(column, squares, weight))
    return sums


def join_summaries(parts: Sequence[list[Any]]) -> list[Any]:
    """Join the column summaries of partitions, which are in the order of their rows."""
    columns = zip(*parts, strict=True)
    return [sum(column) if isinstance(column[0], float) else column[0].join(column) for column in columns]
