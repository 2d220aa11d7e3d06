"""Frames and columns of the library of a table: cells replaced by labels, and answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import narwhals.stable.v2 as nw
import numpy as np

from sparsefield.data.column_types import (
    CATEGORIES,
    ColumnType,
    cells_of_days,
    empty_series,
    family_of,
    type_of_array,
    type_of_series,
)
from sparsefield.data.frames import JoinedColumns, Source
from sparsefield.data.labels import as_floats_of, cells_like, days_as_numpy, is_missing, plain_labels
from sparsefield.errors import DataError

FLOATS = {nw.Float16: np.dtype(np.float16), nw.Float32: np.dtype(np.float32)}
"""Types of floats that are narrower than those of the numbers that are filled in."""

TableT = TypeVar("TableT")
"""A table that a method returns in the kind in which it was passed: a frame, an array or a sparse matrix."""


class Frame(Protocol):
    """A data frame of the library that the training data came in; polars where these were arrays.

    Only what all libraries share is declared; other attributes are those of the library.
    """

    @property
    def columns(self) -> Any: ...

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any) -> Any: ...

    def __getattr__(self, name: str) -> Any: ...


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
    backend = _backend(kind)
    made = {name: _make_integers(name, cells, backend) for name, cells in columns.items()}
    return nw.to_native(nw.from_dict(made, backend=backend))


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
    cells = cells_of_days(labels, column_type.dtype)
    if known is not None:
        exact = cells_of_days(labels, column_type.dtype, per_second=10**6)
        cells = [time if is_known else cell for time, cell, is_known in zip(exact, cells, known, strict=True)]
    return nw.to_native(_fit_cells(series, cells, cells))


def _make_integers(name: str, cells: Any, backend: Any) -> Any:
    """Return a list of integers some of which need more than 63 bits as a column, and other cells as they are.

    Libraries decide by the first cell, and fail at a larger one.
    """
    values = [cell for cell in cells if cell is not None] if isinstance(cells, list) and backend != "pandas" else []
    if {type(value) for value in values} != {int} or (min(values) >= -(2**63) and max(values) < 2**63):
        return cells
    return make_label_columns({name: cells}, backend)[name]


def with_index_of(source: Any, frame: Any) -> Any:
    """Return a frame of pandas with the index of the table, where that is of pandas too."""
    if isinstance(source, JoinedColumns):
        source = source.parts[-1]
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


def _as_cells(series: nw.Series, values: list, labels: list) -> list:
    """Return labels as cells of a column with the given values: dates of numbers of days, floats of its precision."""
    native: Any = nw.to_native(series)
    if series.implementation.is_pandas() and hasattr(native, "cat"):
        categories = native.cat.categories.tolist()
        known = dict(zip(plain_labels(series.name, categories), categories, strict=True))
        return [known.get(label, label) for label in labels]
    dtype = type_of_series(series).dtype
    if family_of(dtype) and not any(isinstance(label, str) for label in labels):
        return cells_of_days(labels, dtype)
    narrow = next((floats for dtype, floats in FLOATS.items() if series.dtype == dtype), None)
    return cells_like(values, labels) if narrow is None else as_floats_of(narrow, labels)


def _fill_array(source: Source, cells: Mapping[str, tuple[np.ndarray, list]]) -> np.ndarray:
    filled = source.native.copy()
    for position, name in enumerate(source.names):
        if name in cells:
            (rows, labels), column = cells[name], source.native[:, position]
            dtype, is_text = type_of_array(column).dtype, any(isinstance(label, str) for label in labels)
            if column.dtype.kind == "O":
                is_date = family_of(dtype) and not is_text
                labels = cells_of_days(labels, dtype) if is_date else cells_like(column.tolist(), labels)
            elif column.dtype.kind in "mM" and not is_text:
                labels = days_as_numpy(column.dtype, labels)
            elif column.dtype in FLOATS.values():
                labels = as_floats_of(column.dtype, labels)
            filled = _widen(filled, labels)
            for row, label in zip(rows, labels, strict=True):
                filled[row, position] = label
    return filled


def _widen(array: np.ndarray, labels: list) -> np.ndarray:
    """Return ``array`` in a wider dtype if its own cannot hold the labels."""
    has_text = any(isinstance(label, str) for label in labels)
    if array.dtype.kind == "O" or (array.dtype.kind in "mM" and not has_text):
        return array
    if not has_text:
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
