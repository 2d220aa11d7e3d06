"""Rows that are equal count as one, with their weights added up: learning asks for sums over rows alone.

Twins are looked for within chunks of rows, so that chunks may lie on different machines. What is left of the chunks,
one behind the other, is cut into chunks again, until little is gained.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self, TypeVar

import numpy as np

from sparsefield.data.dataset import Dataset, DenseDataset
from sparsefield.data.shards import Piece, concatenate, has_missing, overlaps, runs_of_rows, slice_piece
from sparsefield.data.table import Table, cut_into_blocks

__all__ = ["CHUNK", "Chunks", "DuplicateRows", "deduplicate_rows", "find_twins", "merge_in_rounds", "merge_twins"]

WORTH_IT = 0.8
"""With more than this share of different rows, a copy of the table would hardly save any work."""

CHUNK = 2**18
"""Rows that are compared with each other. Results depend on it, so it is the same everywhere."""


class DuplicateRows(NamedTuple):
    """Which rows of a chunk seem to be equal."""

    first: np.ndarray
    """(different rows,): where each is first met, in the order of their marks."""
    owner: np.ndarray
    """(rows,): index into ``first``."""


class Chunks(ABC):
    """Rows cut into chunks of `CHUNK`, wherever these lie."""

    n_rows: int
    n_chunks: int

    @abstractmethod
    def count_different(self) -> int:
        """The rows that are left when each chunk merges its own."""

    @abstractmethod
    def merge(self) -> Self:
        """What is left of the chunks, cut into chunks again."""


Rows = TypeVar("Rows", bound=Chunks)


def merge_in_rounds(rows: Rows) -> Rows:
    """Fewer rows, in the order of their first occurrence, with the weights of their twins; itself where little would be
    saved."""
    while rows.n_rows > 1 and rows.count_different() <= WORTH_IT * rows.n_rows:
        merged = rows.merge()
        if rows.n_chunks == 1 or merged.n_rows == rows.n_rows:
            return merged
        rows = merged
    return rows


AnyDataset = TypeVar("AnyDataset", bound=Dataset)


def deduplicate_rows(sample: AnyDataset) -> AnyDataset:
    """The same sample with fewer rows, in the order of their first occurrence; itself where little would be saved.

    Rows that touch others, or have gaps, are never merged: what is drawn or believed there is their own. Hidden
    variables are no gaps in this sense, since they are summed over.
    """
    if not isinstance(sample, DenseDataset) or not sample.is_plain or sample.n_rows < 2:
        return sample
    (table,) = sample.tables
    schema, rows = table.schema, _InMemory([Piece(block.codes, block.givens, block.weight) for block in table.blocks])
    if table.has_missing and any(has_missing(piece, schema) for piece in rows.pieces):
        return sample
    merged = merge_in_rounds(rows)
    if merged.n_rows == table.n_rows:
        return sample
    codes, givens, weight = concatenate(merged.pieces)
    blocks = cut_into_blocks(schema, codes, [givens] if len(givens) else [], weight, schema.n_columns)
    return DenseDataset(sample.layout, (Table(schema, tuple(blocks), merged.n_rows),))  # pyright: ignore[reportReturnType]


class _InMemory(Chunks):
    """Of a table: a chunk is put together when it is looked at."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        counts = [piece.n_rows for piece in pieces]
        self.n_rows = sum(counts)
        self._runs = overlaps(counts, runs_of_rows(self.n_rows, CHUNK))
        self.n_chunks = len(self._runs)
        self._twins: list[DuplicateRows] = []

    def _chunks(self) -> Iterator[Piece]:
        for run in self._runs:
            yield concatenate([slice_piece(self.pieces[k], start, stop) for k, start, stop in run])

    def count_different(self) -> int:
        self._twins = [find_twins(chunk) for chunk in self._chunks()]
        return sum(len(twins.first) for twins in self._twins)

    def merge(self) -> _InMemory:
        return _InMemory([merge_twins(chunk, twins) for chunk, twins in zip(self._chunks(), self._twins, strict=True)])


def find_twins(chunk: Piece) -> DuplicateRows:
    """Rows of a chunk with the same mark."""
    _, first, owner = np.unique(_marks(chunk.codes, chunk.givens), return_index=True, return_inverse=True)
    return DuplicateRows(first, owner)


def merge_twins(chunk: Piece, twins: DuplicateRows) -> Piece:
    """The different rows of a chunk, with the weights of their twins."""
    twin = twins.first[twins.owner]
    # Two different rows may share a mark, if hardly ever: such a chunk is left alone.
    if (chunk.codes != chunk.codes[:, twin]).any() or (chunk.givens != chunk.givens[:, twin]).any():
        return chunk
    kept = np.sort(twins.first)
    summed = np.bincount(twin, weights=chunk.weight, minlength=chunk.n_rows)[kept]
    return Piece(np.ascontiguousarray(chunk.codes[:, kept]), chunk.givens[:, kept], summed)


def _marks(codes: np.ndarray, givens: np.ndarray) -> np.ndarray:
    """(rows,): a number that equal rows share, and different ones hardly ever: a sum of odd multiples, modulo 2^64."""
    factors = np.random.default_rng(0).integers(0, 2**63, len(codes) + len(givens), dtype=np.uint64) * 2 + 1
    marks = np.zeros(codes.shape[1], dtype=np.uint64)
    for factor, column in zip(factors, codes, strict=False):
        marks += factor * column.astype(np.uint64)
    for factor, column in zip(factors[len(codes) :], givens, strict=True):
        # Zero has two signs, which are equal and must have one mark. Round numbers have their bits at the upper end,
        # where a product would lose them.
        bits = (column + 0.0).view(np.uint64)
        marks += factor * (bits ^ (bits >> np.uint64(33)) ^ (bits >> np.uint64(51)))
    return marks
