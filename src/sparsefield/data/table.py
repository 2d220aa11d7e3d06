"""Tables as flat, read-only arrays: dense codes in blocks of rows, or rows of the cells that are not 0."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.data.column_types import family_of
from sparsefield.data.frames import Columns, Source
from sparsefield.data.labels import Label, RawColumn, as_numbers, unify_labels
from sparsefield.data.schema import LARGEST_SCORE, Schema, Variable
from sparsefield.data.sparse_matrix import SparseMatrix, digest_arrays
from sparsefield.errors import ClippedValueWarning, DataError, UnknownStateWarning, count


class Block(NamedTuple):
    """Consecutive rows, in the format of kernels; each column is contiguous in memory, since kernels run along rows."""

    start: int
    codes: np.ndarray
    """Codes of the targets, -1 if missing, int32, (targets, rows)."""
    beliefs: np.ndarray
    """Initial beliefs q0, (columns, rows): the values of the columns that code a cell, and their training means for a
    missing cell; then the columns of neighbor views, if any."""
    weight: np.ndarray
    """(rows,)"""
    cell_offsets: np.ndarray
    """Target v is missing in rows missing_rows[cell_offsets[v]:cell_offsets[v + 1]], (targets + 1,)."""
    missing_rows: np.ndarray
    n_target_columns: int
    n_own_columns: int

    @property
    def n_rows(self) -> int:
        return self.codes.shape[1]

    @property
    def covariates(self) -> np.ndarray:
        """(observed columns, rows)"""
        return self.beliefs[self.n_target_columns : self.n_own_columns]

    @property
    def rows(self) -> slice:
        return slice(self.start, self.start + self.n_rows)

    def digest(self) -> bytes:
        return digest_arrays(self.codes, self.covariates, self.weight)


def combine_digests(digests: Iterable[bytes]) -> str:
    """Combine the digests of all blocks of a table, in their order."""
    return hashlib.blake2b(b"".join(digests), digest_size=16).hexdigest()


class SparseBlock(NamedTuple):
    """Consecutive rows without missing cells, most of which have their reference state, in the format of kernels."""

    start: int
    offsets: np.ndarray
    """Row i has columns[offsets[i]:offsets[i + 1]], int64, (rows + 1,)."""
    columns: np.ndarray
    """Nonzero columns of the flat numbering, ascending within a row, int32."""
    weight: np.ndarray
    """(rows,)"""

    @property
    def n_rows(self) -> int:
        return len(self.weight)

    def slice(self, start: int, stop: int) -> SparseBlock:
        """Return some rows, given by their positions in the block."""
        offsets = self.offsets[start : stop + 1]
        cells = self.columns[offsets[0] : offsets[-1]]
        return SparseBlock(self.start + start, offsets - offsets[0], cells, self.weight[start:stop])

    def take(self, rows: np.ndarray) -> SparseBlock:
        """Return some rows, in the order of their numbers."""
        counts = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        places = np.repeat(self.offsets[rows] - offsets[:-1], counts) + np.arange(offsets[-1])
        return SparseBlock(0, offsets, self.columns[places], self.weight[rows])

    def read_only(self) -> SparseBlock:
        """Return the block with read-only arrays, as those from a network are: kernels are compiled for one type."""
        views = [array.view() for array in (self.offsets, self.columns, self.weight)]
        for view in views:
            view.flags.writeable = False
        return SparseBlock(self.start, *views)

    def digest(self) -> bytes:
        return digest_arrays(self.offsets, self.columns, self.weight)


@dataclass(frozen=True)
class Table:
    """Encoded rows with their schema: dense codes in blocks, or cells that differ from their reference state."""

    schema: Schema
    """Of all columns but sparse covariates."""
    blocks: tuple[Block, ...]
    """Dense rows; empty if the table has ``cells``."""
    n_rows: int
    unknown_rows: dict[str, np.ndarray] = field(default_factory=dict)
    """Rows of each target column with values that do not occur in training; inference treats them as missing."""
    cells: SparseBlock | None = None
    """All rows of a table that is stored sparsely, which has no missing cells."""
    sparse_covariates: SparseMatrix | None = None
    """(rows, covariates), beside dense codes of the targets."""

    @classmethod
    def of_cells(cls, schema: Schema, offsets: np.ndarray, columns: np.ndarray, weight: np.ndarray) -> Table:
        """Return a sparse table of arrays as in `SparseBlock`."""
        return cls(schema, (), len(weight), cells=SparseBlock(0, offsets, columns, weight))

    @cached_property
    def sparse_blocks(self) -> tuple[SparseBlock, ...]:
        """Blocks of a sparse table with about equal numbers of cells; their bounds depend only on the data."""
        if self.cells is None:
            return ()
        n_cells = len(self.cells.columns)
        count = int(np.clip(n_cells // config.CELLS_OF_SPARSE_BLOCK, 1, config.MAX_SPARSE_BLOCKS))
        ends = np.searchsorted(self.cells.offsets, np.arange(1, count) * (n_cells / count))
        bounds = np.unique(np.concatenate([[0], ends, [self.n_rows]])).tolist()
        return tuple(self.cells.slice(first, last) for first, last in pairwise(bounds))

    @property
    def total_weight(self) -> float:
        return float(sum(block.weight.sum() for block in self.blocks or self.sparse_blocks))

    @property
    def has_missing(self) -> bool:
        return any(len(block.missing_rows) for block in self.blocks)

    def codes(self) -> np.ndarray:
        """(targets, rows) int32, of a dense table."""
        return np.concatenate([block.codes for block in self.blocks], axis=1)

    def weight(self) -> np.ndarray:
        """(rows,)"""
        return self.cells.weight if self.cells else np.concatenate([block.weight for block in self.blocks])

    def covariates(self) -> np.ndarray:
        """(observed columns, rows), of a dense table."""
        return np.concatenate([block.covariates for block in self.blocks], axis=1)

    def take(self, rows: np.ndarray) -> Table:
        """Return some rows, in the order of their numbers; neighbor views are left out."""
        if self.cells is not None:
            return Table(self.schema, (), len(rows), cells=self.cells.take(rows))
        table = rebuild_table(self, self.codes()[:, rows], rows, self.schema.n_columns)
        matrix = self.sparse_covariates
        return table if matrix is None else replace(table, sparse_covariates=matrix.take(rows))

    def has_unique_states(self, rows: np.ndarray) -> np.ndarray:
        """Return which of some rows have a state that no row outside ``rows`` has, (rows,).

        Only states with a column count in a sparse table.
        """
        if self.cells is not None:
            columns, owner = self.cells.columns, np.repeat(np.arange(self.n_rows), np.diff(self.cells.offsets))
            chosen = np.zeros(self.n_rows, dtype=bool)
            chosen[rows] = True
            known = np.bincount(columns[~chosen[owner]], minlength=self.schema.n_columns) > 0
            return np.bincount(owner[~known[columns]], minlength=self.n_rows)[rows] > 0
        others = np.setdiff1d(np.arange(self.n_rows), rows)
        unique = np.zeros(len(rows), dtype=bool)
        for states in self.codes():
            unique |= (states[rows] >= 0) & ~np.isin(states[rows], states[others])
        return unique


def compile_table(
    source: Columns,
    schema: Schema,
    *,
    sample_weight: np.ndarray | None = None,
    absent_targets: bool = False,
    repeat: int = 1,
    width: int | None = None,
    name: str = "",
) -> Table:
    """Compile the columns of ``source`` to codes and beliefs.

    Parameters
    ----------
    absent_targets : whether target columns that ``source`` does not have are missing in every row, as latent ones are
    repeat : number of consecutive copies of each row
    width : number of columns including neighbor views; None if there are no views
    name : name of the table in warnings, if there are several
    """
    n_rows = source.n_rows
    width = schema.n_columns if width is None else width

    def advice() -> str:
        if (over_links := width - schema.n_columns) > 0:
            return f"use fewer rows, columns or templates. Of the states, {over_links:,} are neighbor sums over links."
        widest = max(schema.variables, key=lambda variable: variable.width)
        return f"use fewer rows or columns. Column {widest.name!r} has the most states, {widest.width + 1:,}."

    config.refuse_beyond_memory(dense_bytes(n_rows * width), f"{n_rows:,} rows x {width:,} states", advice)
    weight = np.ones(n_rows, dtype=config.FLOAT) if sample_weight is None else sample_weight
    codes, covariates, unknown = encode_rows(source, schema, absent_targets=absent_targets)
    for variable in schema.variables:
        if variable.name in unknown:
            warn_unknown_values(variable.name, len(unknown[variable.name].rows), unknown[variable.name].example, name)
    if repeat > 1:
        codes, covariates = np.repeat(codes, repeat, axis=1), np.repeat(covariates, repeat, axis=1)
        weight = np.repeat(weight, repeat)
    unknown_rows = {v.name: unknown[v.name].rows for v in schema.targets if v.name in unknown}
    blocks = cut_into_blocks(schema, codes, covariates, weight, width)
    return Table(schema, tuple(blocks), n_rows * repeat, unknown_rows)


class UnknownValues(NamedTuple):
    """Cells of a column with values that do not occur in training."""

    rows: np.ndarray
    example: Label


def encode_rows(
    source: Columns, schema: Schema, *, absent_targets: bool = False
) -> tuple[np.ndarray, np.ndarray, dict[str, UnknownValues]]:
    """Return int32 codes (targets, rows), covariates (observed columns, rows), and unknown values by column."""
    codes = np.full((len(schema.targets), source.n_rows), -1, dtype=np.int32)
    existing = set(source.names)
    unknown: dict[str, UnknownValues] = {}
    for v, variable in enumerate(schema.targets):
        if variable.name not in existing:
            if absent_targets or variable.role == "latent":
                continue
            raise DataError(f"Column {variable.name!r}, with which the field was learned, is not there.")
        codes[v] = encode_column(source, variable, unknown)
    covariates = [np.empty((0, source.n_rows), dtype=config.FLOAT)]
    for variable in schema.observed:
        if variable.name not in existing:
            raise DataError(f"Observed column {variable.name!r}, with which the field was learned, is not there.")
        covariates.append(_observed_columns(source, variable, unknown))
    return codes, np.concatenate(covariates), unknown


def encode_column(source: Columns, variable: Variable, unknown: dict[str, UnknownValues]) -> np.ndarray:
    """Return the codes of a variable, (rows,); unknown labels become missing and enter ``unknown``."""
    if variable.numeric:
        column, codes = _read_numbers(source, variable), np.full(source.n_rows, -1, dtype=np.int32)
        codes[column.present] = variable.codes_of(as_numbers(column))
        return codes
    cells = source.categories(variable.name)
    known = variable.code_of_label
    table = np.array([known.get(label, -1) for label in cells.labels] + [-1], dtype=np.int32)
    codes = table[cells.codes]
    rows = np.flatnonzero((codes < 0) & (cells.codes >= 0))
    if len(rows):
        example = unify_labels([*cells.labels], cells.are_objects)[cells.codes[rows].min()]
        unknown[variable.name] = UnknownValues(rows, example)
    return codes


def _read_numbers(source: Columns, variable: Variable) -> RawColumn:
    """Return the column of a numeric variable; refuse dates where training had plain numbers or durations."""
    column = source.column(variable.name)
    if not column.in_days:
        return column
    given, learned = family_of(source.column_type(variable.name).dtype), family_of(variable.dtype)
    if given != learned:
        raise DataError(
            f"Column {variable.name!r} holds {given}, but {learned or 'plain numbers'} in training: convert it to "
            f"{learned or 'numbers'}, or fit the field to {given}."
        )
    return column


def warn_unknown_values(column: str, number: int, example: Label, owner: str = "") -> None:
    """Warn about unknown values of a column; ``owner`` is its table, if there are several."""
    of_table = f" of table {owner!r}" if owner else ""
    warnings.warn(
        f"Column {column!r}{of_table} has {count(number, 'cell')} with values that do not occur in training (such as "
        f"{example!r}); they are treated as missing, unless states= of fit names them.",
        UnknownStateWarning,
        stacklevel=2,
    )


def _observed_columns(source: Columns, variable: Variable, unknown: dict[str, UnknownValues]) -> np.ndarray:
    """Return the columns of an observed variable, (width, rows); missing and unknown values have the training mean."""
    columns = np.repeat(variable.column_means[:, None], source.n_rows, axis=1)
    if variable.numeric:
        column = _read_numbers(source, variable)
        values = variable.values_of(as_numbers(column))
        columns[:, column.present] = values
        far = np.flatnonzero(np.abs(values[0]) >= LARGEST_SCORE) if len(values) else []
        if len(far):
            row = int(np.flatnonzero(column.present)[far[0]])
            warnings.warn(
                f"Observed column {column.name!r} has {len(far)} cell(s) more than {LARGEST_SCORE:,.0f} standard "
                f"deviations from its mean in training, first in row {row} ({column.values[far[0]]}); they count as "
                "that far away.",
                ClippedValueWarning,
                stacklevel=2,
            )
        return columns
    codes = encode_column(source, variable, unknown)
    columns[:, codes >= 0] = variable.coded[codes[codes >= 0]].T
    return columns


def cut_into_blocks(
    schema: Schema,
    codes: np.ndarray,
    covariates: np.ndarray,
    weight: np.ndarray,
    width: int,
    *,
    size: int | None = None,
    first: int = 0,
) -> Iterator[Block]:
    """Yield blocks of ``size`` rows, by default as for a whole table; ``first`` is the number of the first row."""
    n_rows = codes.shape[1]
    size = config.block_rows(n_rows) if size is None else size
    # A table without rows has one block too, so that sums over blocks have a shape.
    for start in range(0, max(n_rows, 1), size):
        rows = slice(start, min(start + size, n_rows))
        part = np.ascontiguousarray(codes[:, rows])
        offsets, missing_rows = missing_cells(part)
        beliefs = np.zeros((width, part.shape[1]), dtype=config.FLOAT)
        plain = schema.coding.has_reference & (np.diff(schema.target_offsets) == 1)
        beliefs[schema.target_offsets[:-1][plain]] = part[plain]
        for v in np.flatnonzero(~plain | (np.diff(offsets) > 0)).tolist():
            columns = beliefs[slice(*schema.target_offsets[v : v + 2])]
            values = np.vstack([schema.targets[v].coded, schema.targets[v].column_means])  # the last of a missing cell
            np.take(values.T, part[v], axis=1, out=columns, mode="wrap")  # with code -1
        beliefs[schema.n_target_columns : schema.n_columns] = covariates[:, rows]
        counts = schema.n_target_columns, schema.n_columns
        yield Block(first + start, part, beliefs, np.ascontiguousarray(weight[rows]), offsets, missing_rows, *counts)


def rebuild_table(table: Table, codes: np.ndarray, rows: np.ndarray, width: int) -> Table:
    """Return some rows of a table with other codes."""
    columns = np.ascontiguousarray(codes), table.covariates()[:, rows], table.weight()[rows]
    blocks = cut_into_blocks(table.schema, *columns, width)
    return Table(table.schema, tuple(blocks), codes.shape[1])


def join_blocks(blocks: Sequence[Block]) -> Block:
    """Return the rows of several blocks as one block."""
    codes = np.concatenate([block.codes for block in blocks], axis=1)
    offsets, missing_rows = missing_cells(codes)
    return blocks[0]._replace(
        codes=codes,
        beliefs=np.concatenate([block.beliefs for block in blocks], axis=1),
        weight=np.concatenate([block.weight for block in blocks]),
        cell_offsets=offsets,
        missing_rows=missing_rows,
    )


def missing_cells(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``cell_offsets`` and ``missing_rows`` of a `Block` with the given codes."""
    if codes.min(initial=0) >= 0:
        return np.zeros(len(codes) + 1, dtype=np.int64), np.empty(0, dtype=np.int64)
    variable, rows = np.nonzero(codes < 0)
    return np.searchsorted(variable, np.arange(len(codes) + 1)), np.ascontiguousarray(rows)


def dense_bytes(cells: float) -> float:
    """Return the memory in bytes that a fit to dense arrays of rows x states may take."""
    return config.DENSE_COPIES * cells * np.dtype(config.FLOAT).itemsize


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
    return n_nonzero <= config.SPARSE_DENSITY * cells or dense_bytes(cells) > config.machine_memory()


def prefers_sparse(schema: Schema, n_rows: int) -> bool:
    """Return whether a table without missing cells is stored sparsely, judged by how frequent reference states are."""
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
    config.refuse_beyond_memory(needed, what, lambda: "use fewer rows or columns.")


def make_sparse_table(schema: Schema, offsets: np.ndarray, columns: np.ndarray, weight: np.ndarray) -> Table:
    """Return a sparse table from rows of 0/1 input columns; columns that are constant in training are left out."""
    number = np.where(schema.widths > 0, schema.offsets[:-1], -1)
    if schema.n_targets < schema.n_variables:
        number = number[[schema.index_of_name[name] for name in schema.order]]
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
