"""This module reads pandas, polars and other frames, arrays and sparse 0/1 matrices column by column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, Protocol

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp
from narwhals.stable.v2.dependencies import is_pandas_like_dataframe, is_pyarrow_table

from sparsefield.data.cell_values import (
    SECONDS_OF_DAY,
    as_floats_of,
    cells_like,
    days_as_dates,
    days_as_numpy,
    days_as_times,
    is_missing,
    plain_labels,
    plain_values,
)
from sparsefield.data.column_types import (
    CATEGORIES,
    EXAMPLES,
    ColumnType,
    empty_series,
    type_of_array,
    type_of_series,
)
from sparsefield.data.sparse_checks import as_checked_csr
from sparsefield.data.unicode_text import refuse_half_characters
from sparsefield.errors import DataError

FLOATS = {nw.Float16: np.dtype(np.float16), nw.Float32: np.dtype(np.float32)}
"""Types of floats that are narrower than those of the numbers that are filled in."""


@dataclass(frozen=True)
class RawColumn:
    """A column of the input: the values of its cells, and a mask of the cells that have one."""

    name: str
    values: np.ndarray
    """Values of the present cells, of any dtype, (present cells,)."""
    present: np.ndarray
    """Whether each cell has a value, bool, (rows,)."""
    in_days: bool = False
    """Whether the values are numbers of days instead of the dates, times or durations of the input."""
    categorical: bool = False
    """Whether the type of the column is that of categories, which are no numbers even if all of them look so."""


@dataclass(frozen=True)
class Source:
    """A uniform interface to tables of any kind."""

    names: tuple[str, ...]
    n_rows: int
    kind: str
    """``"array"``, ``"sparse"``, or the name of the frame library, such as ``"pandas"``."""
    native: Any
    keys: tuple[Any, ...] = ()
    """The original column names if not all are strings, as pandas allows; otherwise empty."""

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}

    @cached_property
    def _by_column(self) -> Any:
        """The sparse matrix in column format, for access to single columns."""
        return self.native.tocsc()

    def column(self, name: str) -> RawColumn:
        position = self._position[name]
        if self.kind == "array":
            raw = _array_column(name, self.native[:, position])
        elif self.kind == "sparse":
            dense = np.zeros(self.n_rows, dtype=np.int8)
            by_column = self._by_column
            dense[by_column.indices[by_column.indptr[position] : by_column.indptr[position + 1]]] = 1
            raw = RawColumn(name, dense, np.ones(self.n_rows, dtype=bool))
        else:
            raw = _frame_column(name, self.native[:, position])
        values, in_days = plain_values(name, raw.values)
        return RawColumn(name, values, raw.present, in_days=in_days, categorical=raw.categorical)

    def ordered_categories(self, name: str) -> tuple[Any, ...]:
        """Return the categories of an ordered categorical of pandas or an Enum of polars; none for other columns."""
        if self.kind in ("array", "sparse"):
            return ()
        series = self.native[:, self._position[name]]
        if series.dtype != nw.Enum:
            return ()
        return tuple(plain_labels(name, series.cat.get_categories().to_list()))

    def column_type(self, name: str) -> ColumnType:
        """Return the type of a column of dates, times or categories, which its labels do not tell."""
        if self.kind == "sparse":
            return ColumnType()
        column = self.native[:, self._position[name]]
        return type_of_array(column) if self.kind == "array" else type_of_series(column)

    def text_categories(self, name: str) -> tuple[list[str], np.ndarray] | None:
        """Return the sorted distinct values of a frame's text column, and their index per cell, (rows,).

        The frame's own library does this five times as fast as a loop over cells. None for other columns, and for
        those with missing cells.
        """
        if self.kind in ("array", "sparse"):
            return None
        series = self.native[:, self._position[name]]
        if series.dtype not in (nw.String, nw.Categorical, nw.Enum) or series.null_count():
            return None
        try:
            values = series.unique().to_list()
        except UnicodeEncodeError as error:  # of pyarrow
            refuse_half_characters(str(error.object), f"Column {name!r}")
            raise
        if not values or not all(isinstance(value, str) for value in values):
            return None
        values.sort()
        codes = series.replace_strict(values, list(range(len(values))), return_dtype=nw.Int64)
        return values, np.asarray(codes.to_numpy())


@dataclass(frozen=True)
class JoinedColumns:
    """The columns of one or several tables with the same rows."""

    parts: tuple[Source, ...]
    selected: tuple[str, ...] | None = None
    """The columns to use; None takes all."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._source_of_name) if self.selected is None else self.selected

    @cached_property
    def _source_of_name(self) -> dict[str, Source]:
        return {name: part for part in self.parts for name in part.names}

    @property
    def n_rows(self) -> int:
        return self.parts[0].n_rows

    def column(self, name: str) -> RawColumn:
        return self._source_of_name[name].column(name)

    def ordered_categories(self, name: str) -> tuple[Any, ...]:
        return self._source_of_name[name].ordered_categories(name)

    def column_type(self, name: str) -> ColumnType:
        return self._source_of_name[name].column_type(name)

    def text_categories(self, name: str) -> tuple[list[str], np.ndarray] | None:
        return self._source_of_name[name].text_categories(name)


def as_source(X: Any, what: str = "X", *, may_be_empty: bool = False) -> Source:
    """Wrap any supported table without copying it.

    Parameters
    ----------
    X : pandas, polars or other frame known to narwhals, 2-D array or nested list, or scipy sparse 0/1 matrix
    what : the name of the table in error messages
    may_be_empty : whether a table without rows is accepted; it needs columns in any case

    Examples
    --------
    >>> as_source([[0, 1], [1, None]]).names
    ('x0', 'x1')
    """
    if sp.issparse(X):
        return _read_sparse(X, what, may_be_empty)
    if isinstance(X, np.ndarray):
        return _read_array(X, what, may_be_empty)
    keys: tuple[Any, ...] = ()
    # Both allow duplicate names, which narwhals would refuse with a less helpful message.
    if is_pyarrow_table(X):
        _refuse_duplicates(X.column_names, what)
    elif is_pandas_like_dataframe(X):
        _refuse_duplicates(map(str, X.columns), what)
        if not all(isinstance(key, str) for key in X.columns):
            keys = tuple(X.columns)
            X = X.set_axis([str(key) for key in keys], axis=1)
    frame = nw.from_native(X, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(frame, nw.Series):
        frame = frame.alias("y" if frame.name in (None, "") else str(frame.name)).to_frame()
    if not isinstance(frame, nw.DataFrame):
        if hasattr(type(X), "columns"):
            kind = type(X).__name__
            raise DataError(f"{what} is a {kind}; pass a pandas or polars frame, an array or a sparse matrix.")
        return _read_array(X, what, may_be_empty)
    _refuse_empty(frame.shape, what, may_be_empty)
    return Source(tuple(frame.columns), frame.shape[0], frame.implementation.value, frame, keys)


class Columns(Protocol):
    """The input of schema learning and of table compilation."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def n_rows(self) -> int: ...
    def column(self, name: str) -> RawColumn: ...
    def ordered_categories(self, name: str) -> tuple[Any, ...]: ...
    def column_type(self, name: str) -> ColumnType: ...
    def text_categories(self, name: str) -> tuple[Sequence[Any], np.ndarray] | None: ...


def fill_cells(X: Any, source: Source, cells: Mapping[str, tuple[np.ndarray, list]]) -> Any:
    """Return a copy of ``X``, of the same kind, with cells replaced: ``{column: (row numbers, labels)}``."""
    if source.kind == "sparse":
        return X.copy()
    if source.kind == "array":
        return _fill_array(source, cells)
    columns = []
    for position, name in enumerate(source.names):
        if name in cells and len(cells[name][0]):
            columns.append(_replace_cells(source.native[:, position], *cells[name]))
    frame = source.native.with_columns(*columns)
    native = nw.to_native(frame)
    return native.set_axis(X.columns, axis=1) if source.keys else native


def make_frame(columns: Mapping[str, Any], kind: str) -> Any:
    """Build a frame of the given kind; arrays and matrices become polars frames."""
    return nw.to_native(nw.from_dict(dict(columns), backend=_backend(kind)))


def make_column(
    name: str, labels: Sequence[Any], column_type: ColumnType, kind: str, known: np.ndarray | None = None
) -> Any:
    """Return labels as a column of a type for `make_frame`: dates of numbers of days, categories of text.

    ``known`` are the cells, bool, (rows,), whose times are exact instead of rounded to seconds. The labels are returned
    as they are if the library has no such type.
    """
    labels, backend = list(labels), _backend(kind)
    series = empty_series(name, len(labels), column_type, backend)
    if series is None:
        return labels
    if column_type.dtype in CATEGORIES:
        return nw.to_native(_replace_cells(series, np.arange(len(labels)), labels))
    cells = _as_cells(series, [EXAMPLES.get(column_type.dtype)], labels)
    if known is not None and column_type.dtype.startswith(("datetime", "time")):
        exact: list[Any] = list(days_as_times(labels, getattr(series.dtype, "time_zone", None), per_second=10**6))
        exact = exact if column_type.dtype != "time" else [moment.time() for moment in exact]
        cells = [time if is_known else cell for time, cell, is_known in zip(exact, cells, known, strict=True)]
    return nw.to_native(_fit_cells(series, cells, cells))


def as_pandas(frame: Any) -> Any:
    """Return a frame of any library as one of pandas, with the types of its columns; an array is returned as it is."""
    made = nw.from_native(frame, eager_only=True, pass_through=True)
    if not isinstance(made, nw.DataFrame) or made.implementation.is_pandas():
        return frame
    import pandas as pd

    return pd.DataFrame({name: made[name].to_numpy() for name in made.columns})


def with_index_of(source: Any, frame: Any) -> Any:
    """Return a frame of pandas with the index of the table, where that is of pandas too."""
    if not isinstance(source, Source) or source.kind != "pandas":
        return frame
    return frame.set_axis(nw.to_native(source.native).index, axis=0)


def make_label_columns(columns: Mapping[str, Sequence[Any]], kind: str) -> dict[str, Any]:
    """Return columns of labels for `make_frame`, all of one type: text if any label is, or if types differ.

    None is a missing label; columns have the common type even if they contain nothing else.
    """
    dtype = _type_of([label for labels in columns.values() for label in labels if label is not None])
    if dtype == nw.String:
        columns = {name: [None if v is None else str(v) for v in labels] for name, labels in columns.items()}
    if kind == "pandas":
        import pandas as pd

        # Objects, since integers and booleans with missing cells would become floats.
        return {name: pd.Series(list(labels), dtype=object) for name, labels in columns.items()}
    return {
        name: nw.to_native(nw.new_series(name, list(labels), dtype, backend=_backend(kind)))
        for name, labels in columns.items()
    }


def _type_of(labels: list) -> Any:
    types = {type(label) for label in labels}
    if types == {int} and min(labels) >= -(2**63) and max(labels) < 2**63:
        return nw.Int64
    if types == {int} and min(labels) >= 0 and max(labels) < 2**64:
        return nw.UInt64
    return {(bool,): nw.Boolean, (float,): nw.Float64}.get(tuple(types), nw.String)


def _backend(kind: str) -> Any:
    return "polars" if kind in ("array", "sparse") else kind


def check_kind(kind: Any) -> str:
    """Return ``kind`` if a `Source` may have it; ValueError otherwise."""
    return kind if kind in ("array", "sparse") else nw.Implementation(kind).value


def as_array(X: Any, what: str) -> np.ndarray:
    """Convert an array-like to an array in which missing cells are still missing."""
    if isinstance(X, np.ma.MaskedArray):
        array = X.data.astype(object)
        array[np.ma.getmaskarray(X)] = None
        return array
    try:
        array = np.asarray(X)
        # By default, NumPy turns None and NaN among text into the texts "None" and "nan".
        if not isinstance(X, np.ndarray) and array.dtype.kind not in "biufc":
            array = np.asarray(X, dtype=object)
    except ValueError as error:
        raise DataError(f"{what} could not be read as a table: {error}") from None
    if array.dtype.kind == "c":
        raise DataError(f"Complex data not supported: {what} holds complex numbers.")
    return array


def _read_sparse(X: Any, what: str, may_be_empty: bool) -> Source:
    matrix = as_checked_csr(X, what)
    if not matrix.has_canonical_format or not _all_ones(matrix.data):
        # A copy, since the matrix may share its arrays with the input.
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    if not _all_ones(matrix.data):
        raise DataError(
            f"{what} is a sparse matrix with values other than 0 and 1. A sparse matrix represents 0/1 variables; "
            "pass other values as a dense array or a frame."
        )
    _refuse_empty(X.shape, what, may_be_empty)
    return Source(_default_names(X.shape[1]), X.shape[0], "sparse", matrix)


def _all_ones(values: np.ndarray) -> bool:
    """Return whether all values are 1; checked in pieces, since they may be on disk."""
    return all(bool((values[k : k + 2**20] == 1).all()) for k in range(0, len(values), 2**20))


def _read_array(X: Any, what: str, may_be_empty: bool) -> Source:
    array = as_array(X, what)
    if array.ndim != 2:
        raise DataError(
            f"Expected 2D array, got {array.ndim}D array instead for {what}. Reshape your data either using "
            "array.reshape(-1, 1) if it has a single column or array.reshape(1, -1) if it is a single row."
        )
    _refuse_empty(array.shape, what, may_be_empty)
    return Source(_default_names(array.shape[1]), array.shape[0], "array", array)


def _refuse_empty(shape: tuple[int, ...], what: str, may_be_empty: bool) -> None:
    """Refuse empty tables, with the messages of scikit-learn after the name of the table."""
    if shape[0] == 0 and not may_be_empty:
        raise DataError(f"{what} has no rows: 0 sample(s) (shape={shape}) while a minimum of 1 is required.")
    if shape[1] == 0:
        raise DataError(f"{what} has no columns: 0 feature(s) (shape={shape}) while a minimum of 1 is required.")


def _default_names(count: int) -> tuple[str, ...]:
    return tuple(f"x{k}" for k in range(count))


def _refuse_duplicates(names: Iterable[str], what: str) -> None:
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        shown = ", ".join(repr(name) for name in duplicates[:5])
        raise DataError(f"{what} has several columns named {shown}: rename them so that each name occurs once.")


def _array_column(name: str, values: np.ndarray) -> RawColumn:
    # Most arrays store the cells of a column far apart, and these are read several times.
    values = np.ascontiguousarray(values)
    if values.dtype.kind == "f":
        return _float_column(name, values)
    present = np.ones(len(values), dtype=bool)
    if values.dtype.kind in "mM":
        present = ~np.isnat(values)
    elif values.dtype.kind == "O":
        present = np.fromiter((not is_missing(v) for v in values), dtype=bool, count=len(values))
    return RawColumn(name, values if present.all() else values[present], present)


def _float_column(name: str, values: np.ndarray) -> RawColumn:
    present = ~np.isnan(values)
    return RawColumn(name, values if present.all() else values[present], present)


def _as_cells(series: nw.Series, values: list, labels: list) -> list:
    """Return labels as cells of a column with the given values: dates of numbers of days, floats of its precision."""
    native: Any = nw.to_native(series)
    if series.implementation.is_pandas() and hasattr(native, "cat"):
        categories = native.cat.categories.tolist()
        known = dict(zip(plain_labels(series.name, categories), categories, strict=True))
        return [known.get(label, label) for label in labels]
    if any(isinstance(label, str) for label in labels):
        return cells_like(values, labels)
    if isinstance(series.dtype, nw.Duration):
        unit = {"s": 10**6, "ms": 10**3}.get(series.dtype.time_unit, 1)  # in microseconds
        return [timedelta(microseconds=round(days * SECONDS_OF_DAY * 10**6 / unit) * unit) for days in labels]
    if series.dtype == nw.Date:
        return list(days_as_dates(labels))
    if isinstance(series.dtype, nw.Datetime):
        return list(days_as_times(labels, series.dtype.time_zone))
    narrow = next((floats for dtype, floats in FLOATS.items() if series.dtype == dtype), None)
    return cells_like(values, labels) if narrow is None else as_floats_of(narrow, labels)


def _refuse_type(name: str, dtype: Any) -> None:
    """Refuse types whose cells are no values of a variable."""
    if dtype in (nw.Struct, nw.List, nw.Array):
        raise DataError(f"Column {name!r} has lists or records as cells: make a column of each part, or leave it out.")
    if dtype in (nw.Int128, nw.UInt128):
        raise DataError(
            f"Column {name!r} has integers of more than 64 bits: convert it to text if it has codes, or to floats."
        )


def _frame_column(name: str, series: nw.Series) -> RawColumn:
    _refuse_type(name, series.dtype)
    if series.dtype.is_float():
        # One conversion is enough: a null among floats becomes NaN.
        values = np.asarray(series.to_numpy())
        return _float_column(name, values if values.dtype.kind == "f" else values.astype(np.float64))
    if series.dtype in (nw.Int128, nw.UInt128):
        # NumPy has no such integers.
        return _array_column(name, np.array(series.to_list(), dtype=object))
    categorical = series.dtype in (nw.Categorical, nw.Enum)
    if series.null_count() == 0:
        return RawColumn(name, np.asarray(series.to_numpy()), np.ones(len(series), dtype=bool), categorical=categorical)
    present = ~series.is_null().to_numpy().astype(bool)
    return RawColumn(name, np.asarray(series.drop_nulls().to_numpy()), present, categorical=categorical)


def _fill_array(source: Source, cells: Mapping[str, tuple[np.ndarray, list]]) -> np.ndarray:
    filled = source.native.copy()
    for position, name in enumerate(source.names):
        if name in cells:
            rows, labels = cells[name]
            labels = _array_cells(source.native[:, position], labels)
            filled = _widen(filled, labels)
            for row, label in zip(rows, labels, strict=True):
                filled[row, position] = label
    return filled


def _array_cells(column: np.ndarray, labels: list) -> list:
    """Return labels as cells of an array: dates of numbers of days, floats of its precision."""
    if column.dtype.kind == "O":
        return cells_like(column.tolist(), labels)
    if column.dtype.kind in "mM" and not any(isinstance(label, str) for label in labels):
        return days_as_numpy(column.dtype, labels)
    return as_floats_of(column.dtype, labels) if column.dtype in FLOATS.values() else labels


def _widen(array: np.ndarray, labels: list) -> np.ndarray:
    """Return ``array`` in a wider dtype if its own cannot hold the labels."""
    if array.dtype.kind in "mM" and not any(isinstance(label, str) for label in labels):
        return array
    if not any(isinstance(label, str) for label in labels):
        for dtype in (array.dtype, np.dtype(np.float64)):
            with np.errstate(over="ignore"):
                converted = np.array(labels).astype(dtype)
            if converted.tolist() == labels:
                return array.astype(dtype, copy=False)
    return array.astype(object, copy=False)


def _replace_cells(series: nw.Series, rows: np.ndarray, labels: list) -> nw.Series:
    """Replace some cells of a series; its dtype is widened only if the labels do not fit."""
    values = series.to_list()
    labels = _as_cells(series, values, labels)
    for row, label in zip(rows, labels, strict=True):
        values[row] = label
    return _fit_cells(series, values, labels)


def _fit_cells(series: nw.Series, values: list, labels: list) -> nw.Series:
    """Return cells as a series like another one; its dtype is widened only if the labels among them do not fit."""
    for cells, dtype in _possible_dtypes(series, values, labels):
        try:
            made = _make_like(series, cells, dtype)
        except Exception:  # libraries have no common exception for a value that does not fit
            continue
        # Some libraries change a value that does not fit: 0.5 becomes 0 among integers, 1 becomes text.
        pairs = zip(made.to_list(), cells, strict=True)
        if all(is_missing(now) if is_missing(wanted) else now == wanted for now, wanted in pairs):
            return made
    raise DataError(f"Column {series.name!r}, of type {series.dtype}, cannot hold labels such as {labels[0]!r}.")


def _possible_dtypes(series: nw.Series, values: list, labels: list) -> Iterator[tuple[list, Any]]:
    """Yield cells and dtypes for them, narrowest first, from the column's own dtype to one that holds anything."""
    if series.implementation.is_pandas():
        native: Any = nw.to_native(series)
        if hasattr(native, "cat"):
            known = native.cat.categories
            native = native.cat.add_categories([label for label in dict.fromkeys(labels) if label not in known])
        yield from ((values, dtype) for dtype in (native.dtype, None, object))
        return
    if series.implementation.is_pyarrow():
        yield values, nw.to_native(series).type
    if isinstance(series.dtype, nw.Enum):
        yield values, nw.Enum(list(dict.fromkeys([*series.dtype.categories, *labels])))
    elif series.dtype != nw.Unknown:
        yield values, series.dtype
    yield from ((values, dtype) for dtype in (None, nw.Int64(), nw.Float64()))
    yield [value if value is None else str(value) for value in values], nw.String()


def _make_like(series: nw.Series, values: list, dtype: Any) -> nw.Series:
    if series.implementation.is_pandas():
        native: Any = nw.to_native(series)
        made = type(native)(values, index=native.index, name=native.name, dtype=dtype)
        return nw.from_native(made, series_only=True)
    if series.implementation.is_pyarrow() and dtype == nw.to_native(series).type:
        import pyarrow as pa

        made = nw.from_native(pa.chunked_array([pa.array(values, type=dtype)]), series_only=True)
        return made.alias(series.name)
    return nw.new_series(series.name, values, dtype, backend=series.implementation)
