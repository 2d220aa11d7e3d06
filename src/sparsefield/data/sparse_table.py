"""A table of which few cells are off their base state, as rows of the columns that are on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.data.binary_variables import BinarySchema
from sparsefield.data.frames import Columns, Source
from sparsefield.data.memory import machine_memory, refuse_beyond_memory
from sparsefield.data.schema import Schema
from sparsefield.data.table import dense_bytes, look_up
from sparsefield.errors import UnseenStateWarning

__all__ = [
    "SparseBlock",
    "SparseTable",
    "block_ends",
    "compile_sparse",
    "place_rows",
    "read_on",
    "refuse_too_large",
    "seems_sparse",
]


class SparseBlock(NamedTuple):
    """Some consecutive rows, as kernels take them."""

    start: int
    offsets: np.ndarray
    """(rows + 1,) int64: row i has columns[offsets[i]:offsets[i + 1]]."""
    columns: np.ndarray
    """int32: columns of the flat numbering that are on, ascending within a row. May lie on disk."""
    weight: np.ndarray
    """(rows,)"""

    @property
    def n_rows(self) -> int:
        return len(self.weight)


@dataclass(frozen=True)
class SparseTable:
    """Rows under a schema of categorical columns, without gaps."""

    schema: Schema
    offsets: np.ndarray
    """(rows + 1,) int64"""
    columns: np.ndarray
    """int32, as in `SparseBlock`."""
    weight: np.ndarray
    """(rows,)"""
    has_missing: ClassVar[bool] = False

    @property
    def n_rows(self) -> int:
        return len(self.weight)

    @property
    def n_on(self) -> int:
        """Cells that are on."""
        return len(self.columns)

    @property
    def total_weight(self) -> float:
        return float(sum(block.weight.sum() for block in self.blocks))

    @property
    def blocks(self) -> tuple[SparseBlock, ...]:
        return tuple(self._cut())

    def _cut(self) -> Iterator[SparseBlock]:
        """Blocks of about as many cells each; where they lie depends on the data alone."""
        ends = np.searchsorted(self.offsets, block_ends(self.n_on))
        places = np.unique(np.concatenate([[0], ends, [self.n_rows]]))
        for start, stop in zip(places[:-1].tolist(), places[1:].tolist(), strict=True):
            offsets = self.offsets[start : stop + 1]
            cells = self.columns[offsets[0] : offsets[-1]]
            yield SparseBlock(start, offsets - offsets[0], cells, self.weight[start:stop])


def block_ends(n_on: int) -> np.ndarray:
    """How many cells are on before each block but the first, of a table of so many: the next row begins it."""
    count = int(np.clip(n_on // config.CELLS_OF_SPARSE_BLOCK, 1, config.MAX_SPARSE_BLOCKS))
    return np.arange(1, count) * (n_on / count)


def compile_sparse(source: Columns, schema: Schema, sample_weight: np.ndarray | None = None) -> SparseTable | None:
    """The columns of ``source`` as a sparse table; None where they have gaps, numbers, or too much that is on."""
    weight = np.ones(source.n_rows, dtype=config.FLOAT) if sample_weight is None else sample_weight
    if not isinstance(source, Source) or source.kind != "sparse":
        return _from_columns(source, schema, weight)
    matrix = source.native
    if not isinstance(schema, BinarySchema) or not _is_sparse(matrix.nnz, schema, source.n_rows):
        return None
    refuse_too_large(schema, matrix.nnz)
    return place_rows(schema, matrix.indptr, matrix.indices, weight)


def _is_sparse(n_on: float, schema: Schema, n_rows: int, memory: float | None = None) -> bool:
    """Whether the sparse way is quicker, or the only one that fits into memory: that of this machine unless told."""
    cells = n_rows * schema.n_columns
    return n_on <= config.SPARSE_DENSITY * cells or dense_bytes(cells) > (
        machine_memory() if memory is None else memory
    )


def _from_columns(source: Columns, schema: Schema, weight: np.ndarray) -> SparseTable | None:
    if not seems_sparse(schema, source.n_rows) or not set(source.names).issuperset(schema.order):
        return None
    on = read_on(source, schema)
    if on is None:
        return None
    refuse_too_large(schema, len(on[1]))
    return SparseTable(schema, *on, weight)


def seems_sparse(schema: Schema, n_rows: int, memory: float | None = None) -> bool:
    """Whether a table of categories is kept sparse, unless it has gaps; seen from how often training saw base states.

    ``memory`` is that of this machine unless told.
    """
    if any(variable.numeric for variable in schema.observed):
        return False
    on = n_rows * sum(1.0 - v.frequencies[v.base] for part in (schema.targets, schema.observed) for v in part)
    return n_rows * schema.n_columns >= config.CELLS_FOR_SPARSE and _is_sparse(on, schema, n_rows, memory)


def read_on(source: Columns, schema: Schema) -> tuple[np.ndarray, np.ndarray] | None:
    """Offsets and columns of what is on, as in `SparseTable`; None where there is a gap."""
    rows, columns = [], []
    for variable, first in zip((*schema.targets, *schema.observed), schema.offsets.tolist(), strict=False):
        codes = look_up(source, variable, {})
        if (codes < 0).any():
            return None
        on_rows = np.flatnonzero(codes)
        rows.append(on_rows)
        columns.append(first + codes[on_rows] - 1)
    row, column = np.concatenate(rows), np.concatenate(columns)
    # Columns come in order, and sorting by row keeps that.
    order = np.argsort(row, kind="stable")
    offsets = np.searchsorted(row[order], np.arange(source.n_rows + 1))
    return offsets, column[order].astype(np.int32)


def refuse_too_large(schema: Schema, n_on: int) -> None:
    """Before a fit begins: DataError with the figure when this machine cannot hold it."""
    needed = config.BYTES_OF_CELL * n_on + config.BYTES_OF_STATE * schema.n_columns
    what = f"{n_on:,} cells that are on, in {schema.n_columns:,} columns,"
    refuse_beyond_memory(needed, what, lambda: "use fewer rows or columns.")


def place_rows(schema: BinarySchema, offsets: np.ndarray, columns: np.ndarray, weight: np.ndarray) -> SparseTable:
    """From rows of 0/1 columns that are on, as they came; those that were constant in training are left out."""
    number = schema.column_of_place
    if np.array_equal(number, np.arange(len(number))):
        return SparseTable(schema, _wide(offsets), _narrow(columns), weight)
    placed = number[columns]
    _warn_of_strangers(schema, columns[placed < 0])
    keep = placed >= 0
    kept = np.concatenate([[0], np.cumsum(keep)])[offsets]
    placed = placed[keep].astype(np.int32)
    if len(schema.observed):
        # Targets come first in the flat numbering, so that observed columns may have moved behind them.
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(kept))
        placed = placed[np.lexsort((placed, rows))]
    return SparseTable(schema, kept.astype(np.int64), placed, weight)


def _warn_of_strangers(schema: BinarySchema, columns: np.ndarray) -> None:
    """Of cells that are on in columns that never were."""
    if not len(columns):
        return
    seen_on = np.concatenate([part.seen_on for part in schema.switches])
    index = schema.index_of_name
    odd = [c for c in np.unique(columns).tolist() if not seen_on[index[schema.order[c]]]]
    if odd:
        warnings.warn(
            f"Column {schema.order[odd[0]]!r} has cell(s) with values that training never saw (such as 1); they are "
            "treated as gaps." + (f" So have {len(odd) - 1:,} other columns." if len(odd) > 1 else ""),
            UnseenStateWarning,
            stacklevel=2,
        )


def _wide(offsets: np.ndarray) -> np.ndarray:
    return offsets if offsets.dtype == np.int64 else offsets.astype(np.int64)


def _narrow(columns: np.ndarray) -> np.ndarray:
    return columns if columns.dtype == np.int32 else columns.astype(np.int32)
