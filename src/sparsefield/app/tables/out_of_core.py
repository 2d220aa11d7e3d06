"""This module converts blocks of rows into a table: a sparse one on disk, which may exceed memory, where possible.

A sparse table holds nominal columns without missing cells. Scores of ordinal and numeric columns are no 0 in most rows,
so that these, and missing cells, need a dense table in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sparsefield import config
from sparsefield.app.tables.row_spool import RowSpool, SpooledBlock
from sparsefield.data.binary_schema import BinarySchema
from sparsefield.data.column_summaries import MANY_LABELS, join_summaries
from sparsefield.data.disk_arrays import BinaryCSR, CSRWriter
from sparsefield.data.exact_sums import Weights
from sparsefield.data.frames import Source, as_source
from sparsefield.data.kinds import Kinds, given_kinds
from sparsefield.data.labels import Label
from sparsefield.data.memory import refuse_beyond_memory
from sparsefield.data.schema import Schema
from sparsefield.data.schema_learning import (
    check_roles,
    learn_binary_schema,
    learn_from_parts,
    pieces_of_rows,
    warn_incomplete_covariate,
)
from sparsefield.data.shards import compile_piece, concatenate
from sparsefield.data.sparse_table import SparseTable, compile_sparse_piece, make_sparse_table, refuse_too_large
from sparsefield.data.table import Table, cut_into_blocks, dense_bytes
from sparsefield.errors import DataError

JOINED_AT_ONCE = 8
"""Summaries of blocks that are joined together; more of them would fill the memory."""


def check_blocks(blocks: Iterable[Any], what: str = "X") -> Iterator[tuple[Any, Source]]:
    """Yield each block with its `Source`; all blocks must be of one kind and have the same columns.

    A stream without blocks is refused.
    """
    first: Source | None = None
    for number, block in enumerate(blocks):
        name = f"block {number} of {what} (counted from 0)"
        if type(block).__module__.startswith("pyarrow") and type(block).__name__ == "RecordBatch":
            import pyarrow as pa

            block = pa.Table.from_batches([block])
        source = as_source(block, what=name, may_be_empty=True)
        if first is None:
            first = replace(source, native=None)  # do not keep the block in memory
        check_same_columns(source, first, f"B{name[1:]}")
        yield block, source
    if first is None:
        raise DataError(
            f"{what} is a stream without blocks: 0 sample(s) while a minimum of 1 is required. "
            "(A generator can be read only once: pass a new one.)"
        )


def check_same_columns(source: Source, first: Source, name: str, unit: str = "block") -> None:
    """Raise DataError if a part differs from the first in kind or columns; the message calls it ``name``.

    ``unit`` is the noun for a part, such as "block".
    """
    if source.kind != first.kind:
        raise DataError(
            f"{name} is of another kind ({source.kind}) than the first ({first.kind}): use one kind for all {unit}s."
        )
    if source.names == first.names:
        return
    if len(source.names) != len(first.names):
        raise DataError(
            f"{name} has {len(source.names):,} columns, the first {unit} {len(first.names):,}: all {unit}s "
            "must have the same columns."
        )
    k = next(k for k, (one, other) in enumerate(zip(source.names, first.names, strict=True)) if one != other)
    raise DataError(
        f"{name} has the column {source.names[k]!r} where the first {unit} has {first.names[k]!r}: all "
        f"{unit}s must have the same columns in the same order."
    )


@dataclass(frozen=True)
class ColumnRoles:
    """The roles and states of the columns, and the weights of the rows."""

    observed: Sequence[str]
    kinds: Kinds
    states: Mapping[str, Sequence[Label]]
    weight: np.ndarray | float | None
    """(rows,) weights, one weight for all rows, or None."""
    symmetric: bool = True
    """Whether every state of a nominal column of more than two states has features, in a dense table."""

    def check(self, names: Sequence[str]) -> None:
        """Refuse unknown columns and kinds."""
        check_roles(names, self.observed, self.kinds, self.states)

    def check_binary(self, names: Sequence[str]) -> None:
        """Refuse unknown columns, and kinds that sparse 0/1 rows cannot have."""
        self.check(names)
        given = given_kinds(self.kinds, names).items()
        problems = [
            f"Column {name!r} is {found.kind}, but the columns of sparse 0/1 rows are nominal: leave it out of kinds=, "
            "or pass dense blocks."
            for name, found in given
            if found.kind != "nominal"
        ]
        if problems:
            raise DataError(" ".join(problems))

    def weights(self, start: int, stop: int) -> np.ndarray | None:
        """Return the weights of some rows, or None if all are 1."""
        if self.weight is None:
            return None
        if not isinstance(self.weight, np.ndarray):
            return np.full(stop - start, self.weight, dtype=config.FLOAT)
        if stop > len(self.weight):
            raise DataError(
                f"sample_weight has {len(self.weight):,} weights, but there are more rows: pass one weight per row."
            )
        return self.weight[start:stop]

    def all_weights(self, n_rows: int) -> np.ndarray:
        weight = self.weights(0, n_rows)
        if weight is not None and isinstance(self.weight, np.ndarray) and len(self.weight) != n_rows:
            raise DataError(
                f"sample_weight.shape == {self.weight.shape}, expected ({n_rows},): one weight per row of all blocks."
            )
        return np.ones(n_rows, dtype=config.FLOAT) if weight is None else weight


class TableWriter(ABC):
    """A writer collects blocks of rows in a folder and then builds the table of all rows."""

    def __init__(self, folder: Path, names: tuple[str, ...], roles: ColumnRoles) -> None:
        self.folder, self.names, self.roles, self.n_rows = folder, names, roles, 0

    def add(self, source: Source) -> None:
        """Write one more block."""
        if source.n_rows:
            self._add(source, self.roles.weights(self.n_rows, self.n_rows + source.n_rows))
            self.n_rows += source.n_rows

    def finish(self) -> Table | SparseTable:
        """Return the table of all blocks that were added."""
        if self.n_rows == 0:
            raise DataError("X has no rows: 0 sample(s) in all blocks while a minimum of 1 is required.")
        return self._finish(self.roles.all_weights(self.n_rows))

    @abstractmethod
    def _add(self, source: Source, weight: np.ndarray | None) -> None: ...

    @abstractmethod
    def _finish(self, weight: np.ndarray) -> Table | SparseTable: ...

    @abstractmethod
    def close(self) -> None:
        """Close the files; the folder is kept."""


def open_table_writer(folder: Path, first: Source, roles: ColumnRoles) -> TableWriter:
    """Return a writer for blocks like ``first``, which is not yet added."""
    # A 0/1 column with explicit states is like any other, as in memory.
    kind = _BinaryWriter if first.kind == "sparse" and not roles.states else _SpoolWriter
    return kind(folder, first.names, roles)


class _BinaryWriter(TableWriter):
    """A writer of sparse 0/1 blocks, which stores the indices of the nonzero columns."""

    def __init__(self, folder: Path, names: tuple[str, ...], roles: ColumnRoles) -> None:
        roles.check_binary(names)
        super().__init__(folder, names, roles)
        self._rows = CSRWriter(folder / "block_offsets.npy", folder / "block_columns.npy")

    def _add(self, source: Source, weight: np.ndarray | None) -> None:
        self._rows.append(np.diff(source.native.indptr), source.native.indices)

    def _finish(self, weight: np.ndarray) -> SparseTable:
        return _from_rows(self.folder, BinaryCSR(len(self.names), *self._rows.map()), self.roles, weight)

    def close(self) -> None:
        self._rows.close()


def table_from_rows(folder: Path, rows: BinaryCSR, roles: ColumnRoles) -> SparseTable:
    """Return the table of rows that are already on disk."""
    roles.check_binary(rows.names)
    return _from_rows(folder, rows, roles, roles.all_weights(rows.n_rows))


def _from_rows(folder: Path, rows: BinaryCSR, roles: ColumnRoles, weight: np.ndarray) -> SparseTable:
    """Return the table of ``rows``; they are rewritten only if the schema renumbers columns."""
    given = None if roles.weight is None else weight
    schema = learn_binary_schema(rows.names, set(roles.observed), rows.offsets, rows.columns, given)
    number = schema.column_of_input
    if np.array_equal(number, np.arange(len(number))):
        refuse_too_large(schema, len(rows.columns))
        return SparseTable(schema, rows.offsets, rows.columns, weight)
    return _write(folder, schema, weight, _renumbered(rows, schema))


def _renumbered(rows: BinaryCSR, schema: BinarySchema) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (cells per row, columns) in pieces, with the column numbers of the schema and without constant columns."""
    for start, stop in pieces_of_rows(rows.offsets):
        offsets = rows.offsets[start : stop + 1]
        columns = rows.columns[offsets[0] : offsets[-1]]
        piece = make_sparse_table(schema, offsets - offsets[0], columns, np.empty(0))
        yield np.diff(piece.offsets), piece.columns


def _write(
    folder: Path, schema: Schema, weight: np.ndarray, pieces: Iterable[tuple[np.ndarray, np.ndarray]]
) -> SparseTable:
    """Write a table to disk from pieces of (cells per row, columns)."""
    with closing(CSRWriter(folder / "offsets.npy", folder / "columns.npy")) as rows:
        for counts, columns in pieces:
            rows.append(counts, columns)
        refuse_too_large(schema, rows.columns.length)
        return SparseTable(schema, *rows.map(), weight)


class _SpoolWriter(TableWriter):
    """A writer of frames and arrays, which stores their cells until kinds and states of all columns are known."""

    def __init__(self, folder: Path, names: tuple[str, ...], roles: ColumnRoles) -> None:
        roles.check(names)
        super().__init__(folder, names, roles)
        self._spool = RowSpool(folder / "cells", names)

    def _add(self, source: Source, weight: np.ndarray | None) -> None:
        self._spool.add(source)

    def _finish(self, weight: np.ndarray) -> Table | SparseTable:
        roles = {name: getattr(self.roles, name) for name in ("observed", "kinds", "states", "symmetric")}
        schema = learn_from_parts(self.names, self._summarize, **roles, most=MANY_LABELS)
        missing = dict(zip(self.names, self._spool.n_missing.tolist(), strict=True))
        for name in self.roles.observed:
            warn_incomplete_covariate(name, missing[name], self.n_rows)
        plain = schema.with_reference()
        if any(missing.values()) or not all(variable.has_reference for variable in plain.variables):
            return self._dense_table(schema, weight)
        return _write(self.folder, plain, weight, self._sparse_rows(plain))

    def _summarize(self, function: Callable[..., list[Any]], *arguments: Any) -> list[Any]:
        """Return the joined summaries of all blocks, for `learn_from_parts`."""
        found: list[list[Any]] = []
        for block, weight in self._blocks():
            found.append(function(block, Weights(weight), *arguments))
            if len(found) == JOINED_AT_ONCE:
                found = [join_summaries(found, MANY_LABELS)]
        return join_summaries(found, MANY_LABELS)

    def _blocks(self) -> Iterator[tuple[SpooledBlock, np.ndarray | None]]:
        """Yield each block with the weights of its rows."""
        start = 0
        for block in self._spool.blocks():
            yield block, self.roles.weights(start, start + block.n_rows)
            start += block.n_rows

    def _dense_table(self, schema: Schema, weight: np.ndarray) -> Table:
        what = f"{self.n_rows:,} rows x {schema.n_columns:,} states"
        refuse_beyond_memory(dense_bytes(self.n_rows * schema.n_columns), what, lambda: self._advice(schema))
        rows = concatenate([compile_piece(block, schema)[0] for block in self._spool.blocks()])
        blocks = cut_into_blocks(schema, rows.codes, rows.covariates, weight, schema.n_columns)
        return Table(schema, tuple(blocks), self.n_rows)

    def _advice(self, schema: Schema) -> str:
        kinds = {v.name: v.kind for v in schema.variables if v.ordered and len(v.states) > 2}
        reasons = [f"column {name!r} is {kind}" for name, kind in list(kinds.items())[:3]]
        reasons += ["..."] if len(kinds) > 3 else []
        gaps = [f"{name!r}" for name, count in zip(self.names, self._spool.n_missing, strict=True) if count]
        reasons += [f"column {gaps[0]} has missing values"] if gaps else []
        return (
            "only rows of nominal columns without missing values are learned from disk, but "
            f"{', '.join(reasons)}. Bin numbers or declare columns nominal (kinds=), impute missing values, use fewer "
            "rows, or fit on a Dask cluster (engine=)."
        )

    def _sparse_rows(self, schema: Schema) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (nonzero cells per row, columns) of each block."""
        for block in self._spool.blocks():
            piece = compile_sparse_piece(block, schema)
            assert piece is not None  # which it is if a cell is missing
            yield np.diff(piece.offsets), piece.columns

    def close(self) -> None:
        self._spool.close()
