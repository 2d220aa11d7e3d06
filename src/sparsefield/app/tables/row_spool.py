"""This module writes rows that come in blocks to a file, so that they can be read several times, column by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sparsefield.data.column_summaries import MANY_LABELS
from sparsefield.data.column_types import ColumnType
from sparsefield.data.frames import RawColumn, Source
from sparsefield.data.labels import Label, as_integers, factorize, label_sort_key
from sparsefield.data.schema_learning import refuse_identifier
from sparsefield.errors import DataError

HEADER = np.dtype(
    [("start", np.int64), ("n_values", np.int64), ("dtype", "S4"), ("is_labels", np.bool_), ("complete", np.bool_)]
)
"""Of each column of a block: position in the file, number and type of its values, whether they are numbers of labels,
and whether no cell is missing. If cells are missing, a bit for each row is before the values."""

INTEGERS = (np.int8, np.int16, np.int32, np.int64)


@dataclass
class _Labels:
    """The labels of a column in order of appearance, and what its blocks have in common."""

    name: str
    number: dict[Label, int] = field(default_factory=dict)
    has_text: bool = False
    has_numbers: bool = False
    order: tuple[Any, ...] | None = None
    """The categories of an ordered categorical column; empty if blocks have different ones, None without blocks."""
    in_days: bool = False
    """Whether the values are numbers of days instead of dates, times or durations."""
    categorical: bool = False
    """Whether the type of the column is that of categories."""
    column_type: ColumnType = field(default_factory=ColumnType)
    """The type that the blocks have in common."""

    def add_order(self, order: tuple[Any, ...]) -> None:
        self.order = order if self.order in (None, order) else ()

    def numbers_of(self, labels: Sequence[Label], codes: np.ndarray) -> np.ndarray:
        """Return the numbers of the labels of cells, given as codes into ``labels``."""
        numbers = np.array([self.number.setdefault(label, len(self.number)) for label in labels], dtype=np.int64)
        return numbers[codes]

    def check(self, labels: Sequence[Label], first: int, n_rows: int) -> None:
        """Refuse text beside numbers, because 1 and "1" would be different states, and identifiers.

        ``labels`` are those of a block, none if its values are of a type of numbers; ``first`` is the number of rows
        before the block, ``n_rows`` that of all rows so far. Identifiers are refused early, since their labels would
        fill the memory before the last block.
        """
        is_text, is_numbers = any(isinstance(label, str) for label in labels), not labels
        if (is_text and self.has_numbers) or (is_numbers and self.has_text):
            found, before = ("text or objects", "numbers") if is_text else ("numbers", "text or objects")
            raise DataError(
                f"Column {self.name!r} holds {found} from row {first:,} on (counted from 0 over all blocks), but "
                f"{before} in earlier blocks: convert it to one type, for instance with astype(str)."
            )
        self.has_text |= is_text
        self.has_numbers |= is_numbers
        if len(self.number) > MANY_LABELS:
            refuse_identifier(self.name, len(self.number), n_rows)


class RowSpool:
    """Blocks of rows in a file: numbers as they are, other values as numbers of labels, which stay in memory."""

    def __init__(self, path: Path, names: tuple[str, ...]) -> None:
        self.names, self.n_rows = names, 0
        self.n_missing = np.zeros(len(names), dtype=np.int64)
        """(columns,): number of missing cells."""
        self._path = path
        self._file: BinaryIO = path.open("wb")
        self._labels = {name: _Labels(name) for name in names}
        self._blocks: list[tuple[int, int]] = []
        """Position of the header in the file, and number of rows, of each block."""

    def add(self, source: Source) -> None:
        """Write one more block."""
        header = np.zeros(len(self.names), dtype=HEADER)
        for k, labels in enumerate(self._labels.values()):
            header[k] = self._write(source, labels)
        self.n_missing += source.n_rows - header["n_values"]
        self._blocks.append((self._file.tell(), source.n_rows))
        self._file.write(header.data)
        self.n_rows += source.n_rows

    def _write(self, source: Source, column: _Labels) -> tuple[int, int, bytes, bool, bool]:
        """Write a column of a block, and return its header."""
        column.column_type = ColumnType.join([column.column_type, source.column_type(column.name)])
        column.add_order(source.ordered_categories(column.name))
        words = source.text_categories(column.name)
        present = np.ones(source.n_rows, dtype=bool)
        if words is not None:
            labels, values = words[0], column.numbers_of(*words)
        else:
            raw = source.column(column.name)
            labels, values, present = [], raw.values, raw.present
            column.in_days |= raw.in_days
            column.categorical |= raw.categorical
            if values.dtype.kind not in "biuf":
                labels, codes = factorize(raw, part=True)
                values = column.numbers_of(labels, codes[present])
        if len(values):
            column.check(labels, self.n_rows, self.n_rows + source.n_rows)
        values, start, complete = _narrowed(values), self._file.tell(), bool(present.all())
        if not complete:
            self._file.write(np.packbits(present).data)
        self._file.write(np.ascontiguousarray(values).data)
        return start, len(values), values.dtype.str.encode(), len(labels) > 0, complete

    def blocks(self) -> Iterator[SpooledBlock]:
        """Yield the blocks in order; their cells are read when they are needed."""
        self.close()
        for start, n_rows in self._blocks:
            header = np.fromfile(self._path, HEADER, len(self.names), offset=start)
            yield SpooledBlock(self.names, n_rows, self._path, header, self._labels)

    def close(self) -> None:
        """Close the file; it is kept."""
        self._file.close()


def _narrowed(values: np.ndarray) -> np.ndarray:
    """Return values in the smallest type that holds them; whole numbers are integers, whatever their type was."""
    values = as_integers(values)
    if values.dtype.kind not in "iu" or not len(values):
        return values
    low, high = int(values.min()), int(values.max())
    fits = (kind for kind in INTEGERS if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return values.astype(next(fits, values.dtype), copy=False)


@dataclass(frozen=True)
class SpooledBlock:
    """A block of a `RowSpool`, with the interface of a table (`Columns`)."""

    names: tuple[str, ...]
    n_rows: int
    _path: Path
    _header: np.ndarray
    """(columns,) of `HEADER`."""
    _labels: dict[str, _Labels]

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}

    def column(self, name: str) -> RawColumn:
        values, present, is_labels = self._read(name)
        if is_labels:
            table = np.empty(len(self._labels[name].number), dtype=object)
            table[:] = list(self._labels[name].number)
            values = table[values]
        known = self._labels[name]
        return RawColumn(name, values, present, in_days=known.in_days, categorical=known.categorical)

    def ordered_categories(self, name: str) -> tuple[Any, ...]:
        return self._labels[name].order or ()

    def column_type(self, name: str) -> ColumnType:
        return self._labels[name].column_type

    def text_categories(self, name: str) -> tuple[list[Label], np.ndarray] | None:
        """Return the sorted labels in this block, and their index per cell, -1 if missing; None for numbers."""
        values, present, is_labels = self._read(name)
        if not is_labels:
            return None
        used, places = np.unique(values, return_inverse=True)
        known = list(self._labels[name].number)
        labels = [known[k] for k in used.tolist()]
        order = sorted(range(len(labels)), key=lambda k: label_sort_key(labels[k]))
        rank = np.empty(len(labels), dtype=np.int64)
        rank[order] = np.arange(len(labels))
        codes = np.full(self.n_rows, -1, dtype=np.int64)
        codes[present] = rank[places]
        return [labels[k] for k in order], codes

    def _read(self, name: str) -> tuple[np.ndarray, np.ndarray, bool]:
        """Return the values of a column, the (rows,) mask of cells with one, and whether values are label numbers."""
        start, n_values, dtype, is_labels, complete = self._header[self._position[name]].tolist()
        present = np.ones(self.n_rows, dtype=bool)
        if not complete:
            bits = np.fromfile(self._path, np.uint8, -(-self.n_rows // 8), offset=start)
            present = np.unpackbits(bits, count=self.n_rows).astype(bool)
            start += len(bits)
        values = np.fromfile(self._path, np.dtype(dtype.decode()), n_values, offset=start)
        return values, present, is_labels
