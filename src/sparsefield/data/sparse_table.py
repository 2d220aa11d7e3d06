"""Sparse tables: most cells have their reference state, and rows are lists of nonzero columns.

A cell is nonzero if it has another state than the reference state.
"""

from __future__ import annotations

import warnings

import numpy as np

from sparsefield import config
from sparsefield.data.frames import Columns, Source
from sparsefield.data.memory import machine_memory, refuse_beyond_memory
from sparsefield.data.schema import Schema
from sparsefield.data.table import Table, dense_bytes, encode_column
from sparsefield.errors import UnknownStateWarning


def compile_sparse(source: Columns, schema: Schema, sample_weight: np.ndarray | None = None) -> Table | None:
    """Compile ``source`` to a sparse table; None if it has missing or numeric cells, or too many nonzero ones."""
    weight = np.ones(source.n_rows, dtype=config.FLOAT) if sample_weight is None else sample_weight
    if isinstance(source, Source) and source.kind == "sparse":
        matrix = source.native
        if not schema.is_binary or not _is_sparse(matrix.nnz, schema, source.n_rows):
            return None
        refuse_too_large(schema, matrix.nnz)
        return make_sparse_table(schema, matrix.indptr, matrix.indices, weight)
    if not prefers_sparse(schema, source.n_rows) or not set(source.names).issuperset(schema.order):
        return None
    cells = read_nonzero_cells(source, schema)
    if cells is None:
        return None
    refuse_too_large(schema, len(cells[1]))
    return Table.of_cells(schema, *cells, weight)


def _is_sparse(n_nonzero: float, schema: Schema, n_rows: int) -> bool:
    """Return whether sparse storage is faster, or the only one that fits into the memory of this machine."""
    cells = n_rows * schema.n_columns
    return n_nonzero <= config.SPARSE_DENSITY * cells or dense_bytes(cells) > machine_memory()


def prefers_sparse(schema: Schema, n_rows: int) -> bool:
    """Return whether a table without missing cells is stored sparsely, judged by the frequencies of reference states."""
    if not all(variable.has_reference for variable in schema.variables):
        return False
    n_nonzero = n_rows * sum(1.0 - v.frequencies[v.reference] for v in schema.variables)
    return n_rows * schema.n_columns >= config.CELLS_FOR_SPARSE and _is_sparse(n_nonzero, schema, n_rows)


def read_nonzero_cells(source: Columns, schema: Schema) -> tuple[np.ndarray, np.ndarray] | None:
    """Return offsets and columns of nonzero cells, as in `SparseBlock`; None if a cell is missing."""
    rows, columns = [], []
    for variable, first in zip(schema.variables, schema.offsets.tolist(), strict=False):
        codes = encode_column(source, variable, {})
        if (codes < 0).any():
            return None
        active = np.flatnonzero(codes)
        rows.append(active)
        columns.append(first + codes[active] - 1)
    row, column = np.concatenate(rows), np.concatenate(columns)
    # Columns are in order, and a stable sort by row keeps that.
    order = np.argsort(row, kind="stable")
    offsets = np.searchsorted(row[order], np.arange(source.n_rows + 1))
    return offsets, column[order].astype(np.int32)


def refuse_too_large(schema: Schema, n_nonzero: int) -> None:
    """Raise a DataError with the figures if a fit would exceed the memory of this machine."""
    needed = config.BYTES_OF_CELL * n_nonzero + config.BYTES_OF_STATE * schema.n_columns
    what = f"{n_nonzero:,} nonzero cells in {schema.n_columns:,} columns"
    refuse_beyond_memory(needed, what, lambda: "use fewer rows or columns.")


def make_sparse_table(schema: Schema, offsets: np.ndarray, columns: np.ndarray, weight: np.ndarray) -> Table:
    """Return a sparse table from rows of 0/1 input columns; columns that are constant in training are left out."""
    number = schema.column_of_input
    if np.array_equal(number, np.arange(len(number))):
        return Table.of_cells(
            schema, offsets.astype(np.int64, copy=False), columns.astype(np.int32, copy=False), weight
        )
    renumbered = number[columns]
    _warn_unknown_values(schema, columns[renumbered < 0])
    keep = renumbered >= 0
    kept = np.concatenate([[0], np.cumsum(keep)])[offsets]
    renumbered = renumbered[keep].astype(np.int32)
    if len(schema.observed):
        # Targets come first in the flat numbering, so observed columns may have moved.
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(kept))
        renumbered = renumbered[np.lexsort((renumbered, rows))]
    return Table.of_cells(schema, kept.astype(np.int64), renumbered, weight)


def _warn_unknown_values(schema: Schema, columns: np.ndarray) -> None:
    """Warn about cells that are 1 in columns that are always 0 in training."""
    if not len(columns):
        return
    index = schema.index_of_name
    odd = [c for c in np.unique(columns).tolist() if not schema.has_one[index[schema.order[c]]]]
    if odd:
        warnings.warn(
            f"Column {schema.order[odd[0]]!r} has cell(s) with values that do not occur in training (such as 1); they "
            "are treated as missing." + (f" So have {len(odd) - 1:,} other columns." if len(odd) > 1 else ""),
            UnknownStateWarning,
            stacklevel=2,
        )
