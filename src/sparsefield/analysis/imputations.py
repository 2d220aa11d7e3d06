"""Imputations: completed copies of a table, and the pooling of what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from sparsefield.analysis.pooling import PooledEstimates, pool, pool_results
from sparsefield.data import Label, Source, make_frame
from sparsefield.data.cell_values import is_missing
from sparsefield.data.frame_building import Frame, fill_cells
from sparsefield.errors import DataError

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
        if len(names) != 2 or names[0] == names[1]:
            raise ValueError(f"names must be two names, of the imputation and of the row, got {names!r}.")
        clash = [name for name in names if name in self.source.names]
        if clash:
            raise DataError(
                f"The table has a column {clash[0]!r}, which the long form needs for itself: give other names, such as "
                "to_frame(names=('.imp', '.id'))."
            )
        tables, parts = [*([self.table] if original else []), *self], []
        for number, table in enumerate(tables, start=0 if original else 1):
            frame: nw.DataFrame = nw.from_native(self._as_frame(table), eager_only=True)
            keys = zip(names, ([number] * len(frame), range(1, len(frame) + 1)), strict=True)
            series = [nw.new_series(name, list(key), nw.Int64, backend=frame.implementation) for name, key in keys]
            parts.append(frame.with_columns(*series).select(*names, *frame.columns))
        return self._as_frame(nw.to_native(nw.concat(parts)))

    def _as_frame(self, table: Any) -> Any:
        """Return an array as a frame, and a frame of pandas with rows from 0: labels would occur several times."""
        if self.source.kind == "array" and isinstance(table, np.ndarray):
            cells = [[None if is_missing(value) else value for value in column] for column in table.T.tolist()]
            return make_frame(dict(zip(self.source.names, cells, strict=True)), "polars")
        return table.reset_index(drop=True) if self.source.kind == "pandas" else table

    def pool(
        self, analysis: Analysis, *, complete_df: float | None = None, confidence: float = 0.95
    ) -> PooledEstimates:
        """Apply an analysis to each completed table, and pool the results by Rubin's rules.

        Parameters
        ----------
        analysis : function of a completed table
            It returns a fitted model with the attributes ``params`` and ``bse``, as those of statsmodels have, or a
            pair of coefficients and standard errors. Coefficients are an array, or {name: number}.
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
        """Return the values of a column in one imputation, (rows,): numbers, or objects; 0 or None where missing."""
        column = self.source.column(name)
        values = np.zeros(len(column.present), dtype=float if _holds_numbers(column) else object)
        values[column.present] = column.values
        if name in self.cells:
            values[self.cells[name].rows] = self.cells[name].drawn[number]
        return values

    def _columns(self, columns: Sequence[str] | str | None, *, numbers: bool) -> list[str]:
        """Return the columns that were asked for, after checks of their names and kinds."""
        source, n_rows = self.source, self.source.n_rows
        filled = {name: len(cells.rows) for name, cells in self.cells.items()}
        known = {name: source.column(name) for name in source.names}
        complete = {name for name in known if known[name].present.sum() + filled.get(name, 0) == n_rows}
        if columns is None:
            names = [
                name
                for name in source.names
                if name in complete and _holds_numbers(known[name]) == numbers and not known[name].in_days
            ]
            if not names:
                kind = "of numbers" if numbers else "other than numbers"
                raise DataError(f"The imputed table has no complete columns {kind}.")
            return names
        names = [columns] if isinstance(columns, str) else list(columns)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise DataError(f"The table has no column {unknown[0]!r}; its columns are {', '.join(source.names)}.")
        text = [name for name in names if numbers and not _holds_numbers(known[name])]
        if text:
            raise DataError(f"Column {text[0]!r} does not hold numbers, so that it has no mean: use proportion.")
        incomplete = [repr(name) for name in names if name not in complete]
        if incomplete:
            raise DataError(
                f"Values are still missing in {', '.join(incomplete)}, since observed columns are not imputed: leave "
                "these columns out, or fit them as targets."
            )
        return names


def _holds_numbers(column: Any) -> bool:
    return column.values.dtype.kind in "iuf" and not column.categorical


def _without_point(state: Any) -> Any:
    """Return a whole number as an integer, and other states as they are."""
    return int(state) if isinstance(state, float) and state.is_integer() else state
