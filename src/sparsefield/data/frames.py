"""Pandas, polars and other frames, arrays and sparse 0/1 matrices, read column by column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp
from narwhals.stable.v2.dependencies import is_pandas_like_dataframe, is_pyarrow_table

from sparsefield.data.column_types import ColumnType, type_of_array, type_of_series
from sparsefield.data.labels import Label, RawColumn, factorize, is_missing, is_valid_text, plain_labels, plain_values
from sparsefield.data.sparse_matrix import LARGEST_VALUE, as_checked_csr
from sparsefield.errors import DataError, list_first


class CategoricalCells(NamedTuple):
    """The cells of a column as categories."""

    labels: list[Label]
    """Sorted distinct values."""
    codes: np.ndarray
    """Index into ``labels``, -1 for a missing cell, (rows,)."""
    are_objects: bool
    """Whether the values are text or Python objects, as opposed to NumPy numbers or booleans."""
    column: RawColumn


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
        """Return a column, whose arrays must not be modified."""
        position = self._position[name]
        if self.kind == "array":
            raw = _array_column(name, self.native[:, position])
        elif self.kind == "sparse":
            dense = np.zeros(self.n_rows, dtype=np.int8)
            by_column = self._by_column
            dense[by_column.indices[by_column.indptr[position] : by_column.indptr[position + 1]]] = 1
            raw = RawColumn(name, dense, np.ones(self.n_rows, dtype=bool))
        else:
            raw = _frame_column(name, self._series(name))
        values, in_days = plain_values(name, raw.values)
        return RawColumn(name, values, raw.present, in_days=in_days, categorical=raw.categorical)

    def _series(self, name: str) -> nw.Series:
        """Return a column of a frame, whose own name for it may be another one."""
        return self.native[:, self._position[name]]

    def order(self, name: str) -> tuple[Label, ...]:
        """Return the categories of an ordered categorical of pandas or an Enum of polars; none for other columns."""
        if self.kind in ("array", "sparse") or (series := self._series(name)).dtype != nw.Enum:
            return ()
        return tuple(plain_labels(name, series.cat.get_categories().to_list()))

    def column_type(self, name: str) -> ColumnType:
        """Return the type of a column of dates, times or categories, which its labels do not tell."""
        if self.kind == "sparse":
            return ColumnType()
        if self.kind == "array":
            return type_of_array(self.native[:, self._position[name]])
        return type_of_series(self._series(name))

    def categories(self, name: str) -> CategoricalCells:
        """Return the sorted distinct labels of a column, and their index per cell."""
        column = self.column(name)
        return CategoricalCells(*factorize(column, part=True), column.values.dtype.kind not in "biuf", column)


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

    def order(self, name: str) -> tuple[Label, ...]:
        return self._source_of_name[name].order(name)

    def column_type(self, name: str) -> ColumnType:
        return self._source_of_name[name].column_type(name)

    def categories(self, name: str) -> CategoricalCells:
        return self._source_of_name[name].categories(name)


Columns = Source | JoinedColumns
"""The input of schema learning and of table compilation."""


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
        check_names(X.column_names, what)
    elif is_pandas_like_dataframe(X):
        check_names([str(name) for name in X.columns], what)
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
    refuse_empty(frame.shape, what, may_be_empty)
    check_names(frame.columns, what)
    return Source(tuple(frame.columns), frame.shape[0], frame.implementation.value, frame, keys)


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
    if not matrix.has_canonical_format or not (matrix.data == 1).all():
        # A copy, since the matrix may share its arrays with the input.
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    if not (matrix.data == 1).all():
        raise DataError(
            f"{what} is a sparse matrix with values other than 0 and 1. A sparse matrix represents 0/1 variables; "
            "pass other values as a dense array or a frame."
        )
    refuse_empty(X.shape, what, may_be_empty)
    return Source(default_names(X.shape[1]), X.shape[0], "sparse", matrix)


def read_covariates(X: Any, what: str = "X", names: tuple[str, ...] = ()) -> Source:
    """Return a sparse matrix of real numbers as a source, after checks of its structure and of its values.

    ``names`` are those of its columns; x0, x1, ... where their number is another one.
    """
    if X.dtype.kind == "c":
        raise DataError(f"Complex data not supported: {what} holds complex numbers.")
    matrix = as_checked_csr(X, what)
    refuse_empty(X.shape, what)
    matrix = sp.csr_matrix((matrix.data.astype(np.float64), matrix.indices.copy(), matrix.indptr.copy()), matrix.shape)
    odd = np.flatnonzero(~(np.abs(matrix.data) <= LARGEST_VALUE))
    if len(odd):
        row = int(np.searchsorted(matrix.indptr, odd[0], side="right")) - 1
        raise DataError(
            f"{what} is a sparse matrix with {len(odd):,} value(s) that are missing, infinite or beyond "
            f"{LARGEST_VALUE:g}, first {matrix.data[odd[0]]} in row {row}, column {int(matrix.indices[odd[0]])}: "
            "replace them."
        )
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    names = names if len(names) == X.shape[1] else default_names(X.shape[1])
    return Source(names, X.shape[0], "sparse", matrix)


def _read_array(X: Any, what: str, may_be_empty: bool) -> Source:
    array = as_array(X, what)
    if array.ndim != 2:
        raise DataError(
            f"Expected 2D array, got {array.ndim}D array instead for {what}. Reshape your data either using "
            "array.reshape(-1, 1) if it has a single column or array.reshape(1, -1) if it is a single row."
        )
    refuse_empty(array.shape, what, may_be_empty)
    return Source(default_names(array.shape[1]), array.shape[0], "array", array)


def refuse_empty(shape: tuple[int, ...], what: str, may_be_empty: bool = False) -> None:
    """Refuse empty tables, with the messages of scikit-learn after the name of the table."""
    if shape[0] == 0 and not may_be_empty:
        raise DataError(f"{what} has no rows: 0 sample(s) (shape={shape}) while a minimum of 1 is required.")
    if shape[1] == 0:
        raise DataError(f"{what} has no columns: 0 feature(s) (shape={shape}) while a minimum of 1 is required.")


def default_names(count: int) -> tuple[str, ...]:
    """Return the names of the columns of arrays and matrices: x0, x1, ..."""
    return tuple(f"x{k}" for k in range(count))


def check_names(names: Collection[str], what: str) -> None:
    """Refuse names of columns that are no valid text, or that occur several times."""
    for name in names:
        if not is_valid_text(name):
            raise DataError(f"{what} has a column whose name is no valid Unicode, {name[:40]!r}: rename it.")
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        shown = list_first(duplicates, form=repr)
        raise DataError(f"{what} has several columns named {shown}: rename them so that each name occurs once.")


def _array_column(name: str, values: np.ndarray) -> RawColumn:
    values = np.ascontiguousarray(values)
    present = np.ones(len(values), dtype=bool)
    if values.dtype.kind in "fmM":
        present = ~np.isnan(values) if values.dtype.kind == "f" else ~np.isnat(values)
    elif values.dtype.kind == "O":
        present = np.fromiter((not is_missing(v) for v in values), dtype=bool, count=len(values))
    return RawColumn(name, values if present.all() else values[present], present)


def _frame_column(name: str, series: nw.Series) -> RawColumn:
    dtype = series.dtype
    if dtype in (nw.Struct, nw.List, nw.Array):
        raise DataError(f"Column {name!r} has lists or records as cells: make a column of each part, or leave it out.")
    if dtype.is_float():
        # One conversion is enough: a null among floats becomes NaN.
        values = np.asarray(series.to_numpy())
        return _array_column(name, values if values.dtype.kind == "f" else values.astype(np.float64))
    if dtype in (nw.Int128, nw.UInt128):
        return _array_column(name, np.array(series.to_list(), dtype=object))
    categorical = dtype in (nw.Categorical, nw.Enum)
    if categorical and series.implementation.is_pyarrow():
        # Most versions of pyarrow convert no dictionaries with unsigned indices, which those of polars have.
        return replace(_array_column(name, np.array(series.to_list(), dtype=object)), categorical=True)
    if series.null_count() == 0:
        return RawColumn(name, np.asarray(series.to_numpy()), np.ones(len(series), dtype=bool), categorical=categorical)
    if dtype.is_integer():  # a null among integers makes them floats: faster than to ask each cell whether it is null
        values = np.asarray(series.to_numpy())
        present = ~np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)
        if present.any() and np.abs(values[present]).max() < 2.0 ** np.finfo(values.dtype).nmant:
            return RawColumn(name, values[present].astype(np.int64), present)
    present = ~series.is_null().to_numpy().astype(bool)
    return RawColumn(name, np.asarray(series.drop_nulls().to_numpy()), present, categorical=categorical)


def is_dask_collection(X: Any) -> bool:
    """Return whether ``X`` is a Dask array or frame."""
    return any(kind.__module__.split(".")[0] in ("dask", "dask_expr") for kind in type(X).__mro__)
