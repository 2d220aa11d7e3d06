"""This module defines the result of multiple imputation: completed tables, and the pooling of what they say."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sparsefield.analysis.pooling import PooledEstimates, pool, pool_results
from sparsefield.data import Label, Source, make_frame
from sparsefield.data.cell_values import is_missing
from sparsefield.data.frame_building import fill_cells
from sparsefield.errors import DataError
from sparsefield.frame_protocol import Frame
from sparsefield.model.atomic_write import write_atomically

Analysis = Callable[[Any], Any]
"""A function of a completed table that returns a fitted model, or coefficients and their standard errors."""


@dataclass(frozen=True, eq=False)
class ImputedCells:
    """The missing cells of a column, and what was drawn for them."""

    rows: np.ndarray
    """(missing cells,)"""
    drawn: tuple[list[Label], ...]
    """For each imputation, a value for each missing cell."""


@dataclass(frozen=True, eq=False)
class Imputations:
    """Several completed copies of one table, which differ only in the cells that were missing.

    An object of this class is a sequence of tables of the kind that was imputed: ``for table in imputations``,
    ``imputations[0]``, ``len(imputations)``. Analyze each of them and pool the results: `pool` does both.

    Attributes
    ----------
    table : the incomplete table
    cells : {column: the missing cells, and what was drawn for them}
    """

    table: Any
    source: Source
    cells: Mapping[str, ImputedCells]
    m: int
    """Number of imputations."""

    def __len__(self) -> int:
        return self.m

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(self.m))

    def __getitem__(self, number: int) -> Any:
        """Return the completed table of an imputation, counted from 0, of the same kind as the incomplete one."""
        if not -self.m <= number < self.m:
            raise IndexError(f"There are {self.m} imputations, numbered from 0; there is none of number {number}.")
        filled = {name: (cells.rows, list(cells.drawn[number])) for name, cells in self.cells.items()}
        return fill_cells(self.table, self.source, filled)

    def __repr__(self) -> str:
        missing = sum(len(cells.rows) for cells in self.cells.values())
        rows = f"{self.source.n_rows:,} rows x {len(self.source.names):,} columns"
        return f"Imputations({self.m} of {rows}, {missing:,} missing cells)"

    def to_frame(self, *, original: bool = False, names: Sequence[str] = ("imputation", "row")) -> Frame:
        """Return all completed tables below each other: the long form, as mice's ``complete(action = "long")``.

        Parameters
        ----------
        original : whether the incomplete table comes first, as imputation 0
        names : names of the first two columns: the number of the imputation and of the row, both counted from 1
        """
        self._check_names(names)
        n, first = self.source.n_rows, 0 if original else 1
        numbers = np.arange(first, self.m + 1)
        keys = {names[0]: np.repeat(numbers, n), names[1]: np.tile(np.arange(1, n + 1), len(numbers))}
        filled = {name: self._below_each_other(cells, 1 - first) for name, cells in self.cells.items()}
        rows = np.tile(np.arange(n), len(numbers))
        if self.source.kind == "array":
            repeated = replace(self.source, native=self.source.native[rows], n_rows=len(rows))
            values = fill_cells(None, repeated, filled)
            columns = {
                name: [None if is_missing(value) else value for value in values[:, k].tolist()]
                for k, name in enumerate(self.source.names)
            }
            return make_frame({name: numbers.tolist() for name, numbers in keys.items()} | columns, "polars")
        return self._long_frame(rows, filled, keys)

    def _long_frame(self, rows: np.ndarray, filled: Mapping[str, Any], keys: Mapping[str, np.ndarray]) -> Frame:
        import narwhals.stable.v2 as nw

        source = replace(self.source, native=self.source.native[rows, :], n_rows=len(rows), keys=())
        if self.source.kind == "pandas":  # labels of rows would occur once for each imputation
            plain = nw.to_native(source.native).reset_index(drop=True)
            source = replace(source, native=nw.from_native(plain, eager_only=True))
        frame = nw.from_native(fill_cells(None, source, filled), eager_only=True)
        series = [
            nw.new_series(name, numbers.tolist(), nw.Int64, backend=frame.implementation)
            for name, numbers in keys.items()
        ]
        return nw.to_native(frame.with_columns(*series).select(*keys, *source.names))

    def _below_each_other(self, cells: ImputedCells, skipped: int) -> tuple[np.ndarray, list[Label]]:
        """Return rows and values of the missing cells in the long form, after some copies of the table."""
        starts = (skipped + np.arange(self.m)) * self.source.n_rows
        return (starts[:, None] + cells.rows).ravel(), [value for drawn in cells.drawn for value in drawn]

    def save(self, path: str | os.PathLike[str], *, original: bool = False) -> None:
        """Write the long form, as `to_frame` returns it, to a CSV or Parquet file."""
        import io

        import polars as pl

        suffix = Path(path).suffix.lower()
        if suffix not in (".csv", ".parquet"):
            raise DataError(f"{path}: the name of the file should end in .csv or .parquet.")
        frame: Any = self.to_frame(original=original)
        if not isinstance(frame, pl.DataFrame):
            frame = pl.from_pandas(frame) if self.source.kind == "pandas" else pl.DataFrame(frame)
        buffer = io.BytesIO()
        frame.write_csv(buffer) if suffix == ".csv" else frame.write_parquet(buffer)
        write_atomically(path, buffer.getvalue())

    def pool(
        self, analysis: Analysis, *, complete_df: float | None = None, confidence: float = 0.95
    ) -> PooledEstimates:
        """Apply an analysis to each completed table, and pool the results by Rubin's rules.

        Parameters
        ----------
        analysis : function of a completed table
            It returns a fitted model with the attributes ``params`` and ``bse``, as those of statsmodels have; or a
            pair of coefficients and standard errors, or of coefficients and their covariance matrix.
        complete_df : degrees of freedom of the analysis of a complete table
            None takes ``df_resid`` of fitted models, and infinitely many where there is none.
        confidence : confidence level of the intervals
        """
        pooled = pool_results([analysis(table) for table in self], complete_df, confidence)
        return replace(pooled, kind=self.source.kind)

    def mean(self, columns: Sequence[str] | str | None = None, *, confidence: float = 0.95) -> PooledEstimates:
        """Return the pooled means of columns of numbers; None takes all that are complete, those of dates excepted."""
        names = self._columns(columns, numbers=True)
        n = self.source.n_rows
        means, variances = np.empty((2, self.m, len(names)))
        for j, name in enumerate(names):
            for k in range(self.m):
                values = self._values(name, k).astype(float)
                means[k, j], variances[k, j] = values.mean(), values.var(ddof=1) / n
        pooled = pool(means, variances=variances, complete_df=n - 1, confidence=confidence, names=names)
        return replace(pooled, kind=self.source.kind)

    def proportion(self, columns: Sequence[str] | str | None = None, *, confidence: float = 0.95) -> PooledEstimates:
        """Return the pooled proportions of the values of columns; None takes complete columns other than numbers.

        The names of the estimates are such as "answer=yes".
        """
        n, labels, shares = self.source.n_rows, [], []
        for name in self._columns(columns, numbers=False):
            tables = [self._values(name, k) for k in range(self.m)]
            states = sorted({value for values in tables for value in values.tolist()}, key=lambda v: (str(type(v)), v))
            labels += [f"{name}={_without_point(state)}" for state in states]
            shares += [[float(np.mean(values == state)) for values in tables] for state in states]
        found = np.array(shares).T
        variances = found * (1.0 - found) / (n - 1)
        pooled = pool(found, variances=variances, complete_df=n - 1, confidence=confidence, names=labels)
        return replace(pooled, kind=self.source.kind)

    def _values(self, name: str, number: int) -> np.ndarray:
        """Return the values of a column in one imputation, as numbers or objects, (rows,)."""
        values = self._known[name].copy()
        if name in self.cells:
            values[self.cells[name].rows] = self.cells[name].drawn[number]
        return values

    @cached_property
    def _known(self) -> dict[str, np.ndarray]:
        """The values of every column, (rows,): numbers with NaN for missing ones, or objects with None."""
        found = {}
        for name in self.source.names:
            column = self.source.column(name)
            is_number = column.values.dtype.kind in "iuf" and not column.categorical
            values = np.full(len(column.present), np.nan if is_number else None, dtype=float if is_number else object)
            values[column.present] = column.values
            found[name] = values
        return found

    @cached_property
    def _incomplete(self) -> set[str]:
        """The columns with missing values that were not imputed, as those of observed columns."""
        found = set()
        for name, values in self._known.items():
            missing = np.isnan(values) if values.dtype.kind == "f" else np.array([value is None for value in values])
            drawn = len(self.cells[name].rows) if name in self.cells else 0
            if np.count_nonzero(missing) > drawn:
                found.add(name)
        return found

    def _columns(self, columns: Sequence[str] | str | None, *, numbers: bool) -> list[str]:
        """Return the columns that were asked for, after checks of their names and kinds."""
        if columns is None:
            dated = {name for name in self.source.names if self.source.column(name).in_days}
            found = [name for name, values in self._known.items() if (values.dtype.kind == "f") == numbers]
            found = [name for name in found if name not in dated and name not in self._incomplete]
            if not found:
                kind = "of numbers" if numbers else "other than numbers"
                raise DataError(f"The imputed table has no complete columns {kind}.")
            return found
        names = [columns] if isinstance(columns, str) else list(columns)
        unknown = [name for name in names if name not in self._known]
        if unknown:
            raise DataError(f"The table has no column {unknown[0]!r}; its columns are {', '.join(self.source.names)}.")
        text = [name for name in names if numbers and self._known[name].dtype.kind != "f"]
        if text:
            raise DataError(f"Column {text[0]!r} does not hold numbers, so that it has no mean: use proportion.")
        incomplete = [repr(name) for name in names if name in self._incomplete]
        if incomplete:
            raise DataError(
                f"Values are still missing in {', '.join(incomplete)}, since observed columns are not imputed: leave "
                "these columns out, or fit them as targets."
            )
        return names

    def _check_names(self, names: Sequence[str]) -> None:
        if len(names) != 2 or names[0] == names[1]:
            raise ValueError(f"names must be two names, of the imputation and of the row, got {names!r}.")
        clash = [name for name in names if name in self.source.names]
        if clash:
            raise DataError(
                f"The table has a column {clash[0]!r}, which the long form needs for itself: give other names, such as "
                "to_frame(names=('.imp', '.id'))."
            )


def _without_point(state: Any) -> Any:
    """Return a whole number as an integer, and other states as they are."""
    return int(state) if isinstance(state, float) and state.is_integer() else state
