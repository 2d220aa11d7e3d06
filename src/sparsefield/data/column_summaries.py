"""What is to be known of a column to tell its role and states, found in parts of the rows and joined.

Nothing here depends on how the rows were parted; a table in memory is the case of one part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.data.exact_sums import Exact, Weights, exact_sum
from sparsefield.data.frames import Columns, RawColumn, Source
from sparsefield.data.labels import Label, as_numbers, factorize, label_order, unified
from sparsefield.errors import DataError

__all__ = [
    "MANY_LABELS",
    "Cells",
    "Labels",
    "Moments",
    "Traits",
    "describe",
    "find_traits",
    "join",
    "read_cells",
    "refuse_odd_weights",
    "sum_squares",
]

MANY_LABELS = 2**20
"""Labels of a column beyond which it is taken for one of identifiers wherever they cannot all be held."""

FEW_CELLS = 2**12
"""Cells that are looked at first for different values: most numbers show more than a few at once."""


class Cells(NamedTuple):
    """The cells of a categorical column."""

    labels: Sequence[Label]
    codes: np.ndarray
    """(rows,): index into ``labels``, -1 for a gap."""
    are_objects: bool
    """Whether they came as text or Python's objects, not as NumPy's numbers or truths."""
    whole: bool
    """Whether there is no gap."""


def read_cells(source: Columns, name: str) -> Cells:
    """Distinct labels of a part of a column, in sorted order, and which cells hold them."""
    words = source.words(name) if isinstance(source, Source) else None
    if words is not None:
        return Cells(*words, are_objects=True, whole=True)
    raw = source.column(name)
    labels, codes = factorize(raw, part=True)
    return Cells(labels, codes, raw.values.dtype.kind not in "biuf", len(raw.values) == len(raw.seen))


@dataclass(frozen=True)
class Labels:
    """Labels of a categorical column, and what the cells that hold them weigh."""

    name: str
    labels: Sequence[Label]
    """In the order in which they were met; sorted within the first part."""
    totals: np.ndarray
    """(labels,) `Exact`"""
    seen: int
    """Cells that are no gaps."""
    are_objects: bool | None
    """As in `Cells`; None where nothing was seen."""
    too_many: bool = False
    """Whether there were more than could be held, and none are told."""

    @classmethod
    def of(cls, source: Columns, weights: Weights, name: str, most: int | None = None) -> Labels:
        labels, codes, are_objects, whole = read_cells(source, name)
        seen = None if whole else codes >= 0
        codes = codes if seen is None else codes[seen]
        if not len(codes):
            return cls(name, [], np.zeros(0, dtype=np.int64), 0, None)
        totals = weights.totals(codes, len(labels), seen)
        return cls(name, labels, totals, len(codes), are_objects)._cut(most)

    @classmethod
    def join(cls, parts: Sequence[Labels], most: int | None = None) -> Labels:
        parts = [part for part in parts if part.seen] or list(parts[:1])
        first = parts[0]
        if len(parts) == 1:
            return first
        # Truths with gaps are objects in pandas, and without gaps they are none: only text is of another kind.
        are_objects = all(part.are_objects for part in parts)
        if not are_objects and any(isinstance(label, str) for part in parts for label in part.labels):
            raise DataError(
                f"Column {first.name!r} holds numbers in some partitions and text in others: give it one type in all "
                "of them, for instance with astype(str)."
            )
        number: dict[Label, int] = {}
        for part in parts:
            for label in part.labels:
                number.setdefault(label, len(number))
        totals = np.zeros(len(number), dtype=np.result_type(*(part.totals for part in parts)))
        for part in parts:
            totals[[number[label] for label in part.labels]] += part.totals
        too_many, seen = any(part.too_many for part in parts), sum(part.seen for part in parts)
        return cls(first.name, list(number), totals, seen, are_objects, too_many)._cut(most)

    def _cut(self, most: int | None) -> Labels:
        if most is None or not (self.too_many or len(self.labels) > most):
            return self
        return replace(self, labels=[], totals=self.totals[:0], too_many=True)

    def in_order(self) -> tuple[list[Label], np.ndarray]:
        """All labels sorted, as if they had come in one column, and their totals."""
        order = sorted(range(len(self.labels)), key=lambda k: label_order(self.labels[k]))
        labels, totals = unified([self.labels[k] for k in order], self.are_objects), self.totals[order]
        if len(set(labels)) < len(labels):  # large integers that are one float
            place = {label: k for k, label in enumerate(dict.fromkeys(labels))}
            sums = np.zeros(len(place), dtype=totals.dtype)
            np.add.at(sums, [place[label] for label in labels], totals)
            return list(place), sums
        return labels, totals


class Traits(NamedTuple):
    """What tells an observed column of numbers from one of categories."""

    numbers: bool
    """Whether all cells hold numbers; truths are none."""
    fractions: bool
    """Whether some are not whole."""
    distinct: frozenset[float]
    """Different whole numbers: all of them, or as many as it takes."""

    @property
    def numeric(self) -> bool:
        """Fractions, or more than a few whole numbers; text and truths never."""
        return self.numbers and (self.fractions or len(self.distinct) > config.NUMERIC_STATES)

    @classmethod
    def of(cls, column: RawColumn) -> Traits:
        values = column.values
        if not len(values):
            return cls(True, False, frozenset())
        if values.dtype.kind == "O":
            if not all(isinstance(v, (int, float, np.number)) and not isinstance(v, bool) for v in values):
                return cls(False, False, frozenset())
            values = values.astype(config.FLOAT)
        if values.dtype.kind not in "iuf":
            return cls(False, False, frozenset())
        # Infinity counts as a fraction: it is a number, which `as_numbers` will refuse.
        if values.dtype.kind == "f" and not (np.isfinite(values) & (values == np.floor(values))).all():
            return cls(True, True, frozenset())
        distinct = np.unique(values[:FEW_CELLS])
        if len(distinct) <= config.NUMERIC_STATES:
            distinct = np.unique(values)
        return cls(True, False, _few(distinct.tolist()))

    @classmethod
    def join(cls, parts: Sequence[Traits]) -> Traits:
        return cls(
            all(part.numbers for part in parts),
            any(part.fractions for part in parts),
            _few(frozenset().union(*(part.distinct for part in parts))),
        )


def _few(distinct: Collection[float]) -> frozenset[float]:
    return frozenset(islice(distinct, config.NUMERIC_STATES + 1))


class Moments(NamedTuple):
    """Sums over the cells of a numeric column."""

    weight: Exact
    weighted: Exact
    """Of weight x value."""

    @classmethod
    def of(cls, column: RawColumn, weights: Weights) -> Moments:
        values = as_numbers(column)
        return cls(weights.total(column.seen), _sum(column.name, values, weights, column.seen))

    @classmethod
    def join(cls, parts: Sequence[Moments]) -> Moments:
        return cls(sum(part.weight for part in parts), sum(part.weighted for part in parts))

    @property
    def centre(self) -> float:
        return float(Fraction(self.weighted) / Fraction(self.weight))

    def deviation(self, squares: Exact) -> float:
        """From the sum of weight x squared distance from the centre."""
        return float(np.sqrt(float(Fraction(squares) / Fraction(self.weight))))


def _sum(name: str, values: np.ndarray, weights: Weights, seen: np.ndarray) -> Fraction:
    """Of weight x value."""
    try:
        with np.errstate(over="ignore"):
            return exact_sum(values if weights.weight is None else values * weights.weight[seen])
    except OverflowError:
        raise DataError(
            f"Observed column {name!r} holds numbers that are too large to be squared and weighed: divide it by "
            "something, or drop it."
        ) from None


def refuse_odd_weights(weight: np.ndarray, first: int = 0) -> None:
    """DataError for weights that are no numbers, or negative; ``first`` is the number of the first row."""
    odd = ~np.isfinite(weight) | (weight < 0)
    if odd.any():
        row = int(np.argmax(odd))
        raise DataError(f"sample_weight of row {first + row} is {weight[row]}: weights are finite and not negative.")


# -- of all columns at once -----------------------------------------------------------------------------------------


def find_traits(source: Columns, weights: Weights, names: Sequence[str]) -> list[Traits]:
    return [Traits.of(source.column(name)) for name in names]


def describe(
    source: Columns, weights: Weights, names: Sequence[str], numbers: Collection[str], most: int | None = None
) -> list[Labels | Moments]:
    """Moments of the columns that are ``numbers``, labels of all others: at most so many of each column, or none."""
    return [
        Moments.of(source.column(name), weights) if name in numbers else Labels.of(source, weights, name, most)
        for name in names
    ]


def sum_squares(source: Columns, weights: Weights, centres: Mapping[str, float]) -> list[Fraction]:
    """Of each column, the sum of weight x squared distance from its centre."""
    sums = []
    for name, centre in centres.items():
        column = source.column(name)
        with np.errstate(over="ignore"):
            squares = (as_numbers(column) - centre) ** 2
        sums.append(_sum(name, squares, weights, column.seen))
    return sums


def join(parts: Sequence[list[Any]], most: int | None = None) -> list[Any]:
    """Summaries of all columns from those of the parts, which stand in the order of their rows."""
    joined = []
    for column in zip(*parts, strict=True):
        kind = type(column[0])
        if kind is Labels:
            joined.append(Labels.join(column, most))
        else:
            joined.append(sum(column) if kind is Fraction else kind.join(column))
    return joined
