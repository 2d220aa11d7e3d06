"""This module computes what a codebook says about columns, for all columns of a frame at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import polars.selectors as cs

from sparsefield.data.column_summaries import ColumnTraits, find_traits
from sparsefield.data.frames import Source
from sparsefield.data.kinds import ColumnKind, kind_of

RANGES = 12
"""Number of equally wide ranges in which the values of a numeric column are counted."""


@dataclass(frozen=True)
class NumberStatistics:
    """What is counted in the numbers of a column; dates are numbers in their physical unit."""

    n_distinct: int
    median: float
    rows: np.ndarray
    """Number of rows in each of some equally wide ranges, (ranges,)."""
    limits: np.ndarray
    """Limits of the ranges, (ranges + 1,)."""

    @classmethod
    def of(cls, values: pl.Series) -> NumberStatistics:
        """Return the statistics of a column, from its sorted numbers: one sort is faster than a hash and a median."""
        numbers = np.sort(values.to_physical().drop_nulls().to_numpy())
        finite = numbers[np.isfinite(numbers)] if numbers.dtype.kind == "f" else numbers
        low, high = (float(finite[0]), float(finite[-1])) if len(finite) else (0.0, 0.0)
        limits = np.linspace(low, high, RANGES + 1)
        ends = np.searchsorted(finite, limits[1:-1])
        middle = len(numbers) // 2
        median = (float(numbers[(len(numbers) - 1) // 2]) + float(numbers[middle])) / 2
        distinct = int(np.count_nonzero(numbers[1:] != numbers[:-1])) + 1
        return cls(distinct, median, np.diff(ends, prepend=0, append=len(finite)), limits)


@dataclass(frozen=True)
class ColumnStatistics:
    """A column as polars has it, and what is counted in it."""

    name: str
    values: pl.Series
    """All cells; null if missing."""
    traits: ColumnTraits
    kind: ColumnKind
    n_missing: int
    counts: pl.DataFrame | None
    """The distinct values of a nominal or ordinal column, the most frequent first, as "level", with their "rows"."""
    numbers: NumberStatistics | None
    """The statistics of a numeric column."""
    low: Any = None
    high: Any = None
    """Smallest and largest value of numbers and dates."""

    @property
    def n_distinct(self) -> int:
        """Number of distinct values."""
        if self.numbers is not None:
            return self.numbers.n_distinct
        return 0 if self.counts is None else self.counts.height

    @property
    def n_values(self) -> int:
        return len(self.values) - self.n_missing

    @property
    def is_text(self) -> bool:
        return self.values.dtype == pl.String

    @property
    def is_whole(self) -> bool:
        """Whether all values are whole numbers, and none is a date."""
        return self.values.dtype.is_numeric() and self.traits.numbers and not self.traits.fractions


def as_polars(source: Source) -> pl.DataFrame:
    """Return a frame of numbers, booleans, times and text; categories and other types become text."""
    if source.kind == "polars":
        frame = nw.to_native(source.native)
    else:
        frame = pl.DataFrame([_as_series(source, name) for name in source.names])
    odd = [column for column in frame.get_columns() if not _is_plain(column.dtype)]
    # One expression for all floats, because polars runs it on all cores.
    return frame.with_columns(_plain(column) for column in odd).with_columns(cs.float().fill_nan(None))


def _as_series(source: Source, name: str) -> pl.Series:
    if source.kind not in ("array", "sparse"):
        series = source.native[:, source.names.index(name)]
        try:
            return series.to_polars().alias(name)
        except Exception:  # libraries have no common exception for cells of several types
            return _from_cells(source, name)
    return _from_cells(source, name)


def _from_cells(source: Source, name: str) -> pl.Series:
    raw = source.column(name)
    values = raw.values if raw.values.dtype.kind in "biuf" else np.array([str(value) for value in raw.values], object)
    known = pl.Series(name, values, dtype=pl.String if values.dtype.kind == "O" else None, strict=False)
    rows = np.cumsum(raw.present) - 1
    return known.gather(pl.Series(rows).set(pl.Series(~raw.present), None)).alias(name)


def _is_plain(dtype: pl.DataType) -> bool:
    return dtype.is_float() or dtype.is_integer() or dtype.is_temporal() or dtype in (pl.Boolean, pl.String)


def _plain(column: pl.Series) -> pl.Series:
    """Return a column of another type as numbers or as text."""
    if column.dtype.is_decimal():
        return column.cast(pl.Float64)
    if column.dtype in (pl.Categorical, pl.Enum, pl.Null):
        return column.cast(pl.String)
    return pl.Series(column.name, [None if cell is None else str(cell) for cell in column.to_list()], dtype=pl.String)


def summarize(source: Source, frame: pl.DataFrame) -> list[ColumnStatistics]:
    """Return the statistics of all columns; ``frame`` is `as_polars` of the source."""
    missing, ranked = _row(frame.null_count()), _ranked(frame)
    traits = {name: _traits_of(source, frame[name], missing[name]) for name in frame.columns}
    kinds = {name: kind_of(traits[name]) for name in frame.columns}
    numbers = {
        name: NumberStatistics.of(frame[name])
        for name in frame.columns
        if kinds[name].kind == "numeric" and missing[name] < frame.height
    }
    low, high = (_row(frame.select(by(pl.col(ranked)))) if ranked else {} for by in (pl.Expr.min, pl.Expr.max))
    counts = _count_levels(frame, [name for name in frame.columns if name not in numbers])
    return [
        ColumnStatistics(
            name,
            frame[name],
            traits[name],
            kinds[name],
            missing[name],
            counts.get(name),
            numbers.get(name),
            low.get(name),
            high.get(name),
        )
        for name in frame.columns
    ]


def _row(frame: pl.DataFrame) -> dict[str, Any]:
    return frame.row(0, named=True)


def _ranked(frame: pl.DataFrame) -> list[str]:
    return [name for name, dtype in frame.schema.items() if dtype.is_numeric() or dtype.is_temporal()]


def _traits_of(source: Source, column: pl.Series, n_missing: int) -> ColumnTraits:
    """Return the traits that decide about the kind; text needs no look at its cells, unless it has an order."""
    plain = column.dtype == pl.String and source.kind not in ("array", "sparse")
    if plain and source.native[:, source.names.index(column.name)].dtype == nw.String:
        return ColumnTraits(n_missing == len(column), False, frozenset())
    try:
        return find_traits(source, None, [column.name])[0]
    except ValueError:  # cells of a type that a fit refuses, such as lists
        return ColumnTraits(False, False, frozenset())


def _count_levels(frame: pl.DataFrame, names: Sequence[str]) -> dict[str, pl.DataFrame]:
    """Return the distinct values of columns, and their numbers of rows; equally frequent ones are sorted."""
    if not names:
        return {}
    levels = (pl.col(name).drop_nulls().alias("level").value_counts(name="rows") for name in names)
    found = frame.select(one.implode().alias(name) for name, one in zip(names, levels, strict=True))
    counts = [found[name][0].struct.unnest().lazy() for name in names]
    counts = pl.collect_all([one.sort("rows", "level", descending=[True, False]) for one in counts])
    return dict(zip(names, counts, strict=True))
