"""This module converts blocks of rows that exceed memory into a sparse table on disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.data.column_summaries import MANY_LABELS
from sparsefield.data.disk_arrays import BinaryCSR, CSRWriter
from sparsefield.data.exact_sums import Weights, rounded
from sparsefield.data.frames import RawColumn, Source, as_source
from sparsefield.data.labels import Label, factorize, label_sort_key, unify_labels
from sparsefield.data.schema import BinarySchema, Role, Schema, Variable
from sparsefield.data.schema_learning import (
    PIECE,
    check_roles,
    is_identifier,
    learn_binary_schema,
    make_categorical,
    pieces_of_rows,
)
from sparsefield.data.sparse_table import SparseTable, make_sparse_table, refuse_too_large
from sparsefield.errors import DataError


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
    numeric: Sequence[str] | Literal["auto"]
    states: Mapping[str, Sequence[Label]]
    weight: np.ndarray | float | None
    """(rows,) weights, one weight for all rows, or None."""

    def check(self, names: Sequence[str]) -> None:
        check_roles(names, self.observed, self.numeric, self.states)

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


class SparseTableWriter(ABC):
    """A writer collects blocks of rows in a folder and then builds the sparse table of all rows there."""

    def __init__(self, folder: Path, names: tuple[str, ...], roles: ColumnRoles) -> None:
        roles.check(names)
        self.folder, self.names, self.roles, self.n_rows = folder, names, roles, 0

    def add(self, source: Source) -> None:
        """Write one more block."""
        if source.n_rows:
            self._add(source, self.roles.weights(self.n_rows, self.n_rows + source.n_rows))
            self.n_rows += source.n_rows

    def finish(self) -> SparseTable:
        """Return the table of all blocks that were added."""
        if self.n_rows == 0:
            raise DataError("X has no rows: 0 sample(s) in all blocks while a minimum of 1 is required.")
        return self._finish(self.roles.all_weights(self.n_rows))

    @abstractmethod
    def _add(self, source: Source, weight: np.ndarray | None) -> None: ...

    @abstractmethod
    def _finish(self, weight: np.ndarray) -> SparseTable: ...

    @abstractmethod
    def close(self) -> None:
        """Close the files; the folder is kept."""


def open_table_writer(folder: Path, first: Source, roles: ColumnRoles) -> SparseTableWriter:
    """Return a writer for blocks like ``first``, which is not yet added."""
    # A 0/1 column with explicit states is categorical, as in memory.
    kind = _BinaryWriter if first.kind == "sparse" and not roles.states else _CategoricalWriter
    return kind(folder, first.names, roles)


class _BinaryWriter(SparseTableWriter):
    """A writer of sparse 0/1 blocks, which stores the indices of the nonzero columns."""

    def __init__(self, folder: Path, names: tuple[str, ...], roles: ColumnRoles) -> None:
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
    roles.check(rows.names)
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


class _CodeBlock(NamedTuple):
    """The position of a block's codes, (columns, rows) of one dtype, in the file."""

    start: int
    n_rows: int
    dtype: np.dtype


class _ColumnLabels:
    """The labels of a column in order of appearance, and their total weights."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.number: dict[Label, int] = {}
        self.totals = np.zeros(0, dtype=np.int64)
        self.are_objects: bool | None = None

    def take(self, labels: Sequence[Label], codes: np.ndarray, weights: Weights) -> np.ndarray:
        """Add cells, given as (rows,) codes into ``labels``, and return the (rows,) numbers of their labels."""
        number = np.array([self.number.setdefault(label, len(self.number)) for label in labels], dtype=np.int64)
        codes = number[codes]
        totals = weights.totals(codes, len(self.number))
        totals[: len(self.totals)] += self.totals
        self.totals = totals
        return codes

    def variable(self, role: Role, n_cells: int, known: Sequence[Label]) -> Variable:
        """Return the variable of all cells so far, as for a column in memory."""
        labels = unify_labels(sorted(self.number, key=label_sort_key), self.are_objects)
        totals = self.totals[[self.number[label] for label in labels]]
        return make_categorical(self.name, role, labels, rounded(totals), n_cells, known)


class _CategoricalWriter(SparseTableWriter):
    """A writer of frames and arrays, which stores a code for every cell until all labels are known."""

    def __init__(self, folder: Path, names: tuple[str, ...], roles: ColumnRoles) -> None:
        super().__init__(folder, names, roles)
        if roles.numeric != "auto" and roles.numeric:
            raise DataError(_numeric_message(roles.numeric[0]))
        self._columns = [_ColumnLabels(name) for name in names]
        self._parts: list[_CodeBlock] = []
        self._file: BinaryIO = (folder / "codes").open("wb")

    def _add(self, source: Source, weight: np.ndarray | None) -> None:
        codes = np.zeros((len(self._columns), source.n_rows), dtype=np.uint8)
        weights = Weights(weight)
        for k, column in enumerate(self._columns):
            taken = column.take(*self._labels(source, column), weights)
            if len(column.number) > np.iinfo(codes.dtype).max + 1:
                codes = codes.astype(np.min_scalar_type(len(column.number) - 1))
            codes[k] = taken
            # Checked after every block: the labels of an identifier would fill the memory before the last block.
            if len(column.number) > MANY_LABELS and is_identifier(len(column.number), self.n_rows + source.n_rows):
                column.variable("target", self.n_rows + source.n_rows, ())  # raises the error for identifiers
        self._parts.append(_CodeBlock(self._file.tell(), source.n_rows, codes.dtype))
        self._file.write(codes.data)

    def _labels(self, source: Source, column: _ColumnLabels) -> tuple[Sequence[Label], np.ndarray]:
        """Return the labels of a block's column and their (rows,) index per cell."""
        words = source.text_categories(column.name)
        if words is not None:
            self._check_type(column, True)
            return words
        raw = source.column(column.name)
        self._check_cells(raw)
        self._check_type(column, raw.values.dtype.kind not in "biuf")
        return factorize(raw, part=True)

    def _check_cells(self, raw: RawColumn) -> None:
        """Refuse cells that a sparse table cannot hold, and name the row."""
        if not raw.present.all():
            row = self.n_rows + int(np.argmin(raw.present))
            raise DataError(
                f"Column {raw.name!r} has a missing value in row {row:,} (counted from 0 over all blocks). Data in "
                "blocks cannot have missing values: impute them, or fit in memory."
            )
        if raw.name in self.roles.observed and self.roles.numeric == "auto" and raw.values.dtype.kind == "f":
            fractions = raw.values != np.floor(raw.values)
            if fractions.any() and not self.roles.states.get(raw.name):
                raise DataError(_numeric_message(raw.name, self.n_rows + int(np.argmax(fractions))))

    def _check_type(self, column: _ColumnLabels, are_objects: bool) -> None:
        """Refuse a column that mixes numbers and text, because 1 and "1" would be different states."""
        if column.are_objects not in (None, are_objects):
            now, before = ("text or objects", "numbers") if are_objects else ("numbers", "text or objects")
            raise DataError(
                f"Column {column.name!r} holds {now} from row {self.n_rows:,} on (counted from 0 over all blocks), but "
                f"{before} in earlier blocks: convert it to one type, for instance with astype(str)."
            )
        column.are_objects = are_objects

    def _finish(self, weight: np.ndarray) -> SparseTable:
        self._file.close()
        roles, given = self.roles, set(self.roles.observed)
        for column in self._columns:
            if column.name in given and roles.numeric == "auto" and not roles.states.get(column.name):
                _refuse_numbers(column)
        variables = [
            column.variable(role, self.n_rows, roles.states.get(column.name, ()))
            for role in ("target", "observed")
            for column in self._columns
            if (column.name in given) == (role == "observed")
        ]
        schema = Schema(tuple(variables), self.names)
        return _write(self.folder, schema, weight, self._placed(schema))

    def _placed(self, schema: Schema) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (cells per row, columns) in pieces; the reference state of a variable has no column."""
        position = {column.name: k for k, column in enumerate(self._columns)}
        places = []
        for variable, offset in zip(schema.variables, schema.offsets.tolist(), strict=False):
            if variable.width:
                column = position[variable.name]
                code = np.array([variable.code_of_label[label] for label in self._columns[column].number])
                places.append((column, np.where(code > 0, offset + code - 1, -1).astype(np.int32)))
        step = max(PIECE // max(len(self._columns), 1), 1)
        for part in self._parts:
            shape = len(self._columns), part.n_rows
            codes = np.memmap(self.folder / "codes", part.dtype, "r", part.start, shape)
            for start in range(0, part.n_rows, step):
                piece = np.asarray(codes[:, start : start + step])
                placed = np.empty((piece.shape[1], len(places)), dtype=np.int32)
                for k, (column, place) in enumerate(places):
                    placed[:, k] = place[piece[column]]
                on = placed >= 0
                yield on.sum(axis=1), placed[on]

    def close(self) -> None:
        self._file.close()


def _refuse_numbers(column: _ColumnLabels) -> None:
    """Refuse an observed column that would be numeric in memory."""
    if not all(isinstance(label, (int, float)) and not isinstance(label, bool) for label in column.number):
        return
    if len(column.number) > config.NUMERIC_STATES or any(float(label) % 1 for label in column.number):
        raise DataError(_numeric_message(column.name))


def _numeric_message(name: str, row: int | None = None) -> str:
    place = "" if row is None else f" (row {row:,}, counted from 0 over all blocks, has a fraction)"
    return (
        f"Observed column {name!r} is numeric{place}, but data in blocks must be categorical: bin it, or fit in "
        "memory. To use integers as categories, pass numeric=[] (in Python)."
    )
