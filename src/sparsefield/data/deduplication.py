"""This module merges equal rows and adds up their weights, since learning needs only sums over rows.

Duplicates are searched within chunks of rows, which may be on different machines. The remaining rows are divided into
chunks again, until little is gained.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self, TypeVar

import numpy as np

from sparsefield.data.dataset import Dataset, DenseDataset
from sparsefield.data.shards import Piece, concatenate, has_missing, overlaps, runs_of_rows
from sparsefield.data.table import Table, cut_into_blocks

MAX_DISTINCT_SHARE = 0.8
"""With a larger share of distinct rows, merging would hardly save any work."""

CHUNK = 2**18
"""Rows per chunk. Results depend on it, so it is the same on all engines."""


class DuplicateRows(NamedTuple):
    """Rows of a chunk with equal hashes."""

    first: np.ndarray
    """First occurrence of each distinct row, in the order of hashes, (distinct rows,)."""
    owner: np.ndarray
    """Index into ``first``, (rows,)."""


class RowChunks(ABC):
    """Rows divided into chunks of `CHUNK` rows, in memory or on workers."""

    n_rows: int
    n_chunks: int

    @abstractmethod
    def count_distinct(self) -> int:
        """Return the number of rows that remain if each chunk is deduplicated."""

    @abstractmethod
    def merge(self) -> Self:
        """Deduplicate each chunk, and divide the remaining rows into chunks again."""


Rows = TypeVar("Rows", bound=RowChunks)


def deduplicate_chunks(rows: Rows) -> Rows:
    """Merge duplicates until little is gained; distinct rows stay in the order of their first occurrence."""
    while rows.n_rows > 1 and rows.count_distinct() <= MAX_DISTINCT_SHARE * rows.n_rows:
        merged = rows.merge()
        if rows.n_chunks == 1 or merged.n_rows == rows.n_rows:
            return merged
        rows = merged
    return rows


AnyDataset = TypeVar("AnyDataset", bound=Dataset)


def deduplicate_rows(sample: AnyDataset) -> AnyDataset:
    """Merge equal rows of a dataset, in the order of their first occurrence; return it unchanged if little is gained.

    Rows with links or missing cells are never merged, since each has its own samples and beliefs. Latent variables do
    not count as missing, since they are summed over.
    """
    if not isinstance(sample, DenseDataset) or not sample.is_plain or sample.n_rows < 2:
        return sample
    (table,) = sample.tables
    schema = table.schema
    rows = _LocalChunks([Piece(block.codes, block.covariates, block.weight) for block in table.blocks])
    if table.has_missing and any(has_missing(piece, schema) for piece in rows.pieces):
        return sample
    merged = deduplicate_chunks(rows)
    if merged.n_rows == table.n_rows:
        return sample
    blocks = cut_into_blocks(schema, *concatenate(merged.pieces), schema.n_columns)
    return DenseDataset(sample.layout, (Table(schema, tuple(blocks), merged.n_rows),))  # pyright: ignore[reportReturnType]


class _LocalChunks(RowChunks):
    """Chunks of a table in memory, which are concatenated when needed."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        counts = [piece.n_rows for piece in pieces]
        self.n_rows = sum(counts)
        self._runs = overlaps(counts, runs_of_rows(self.n_rows, CHUNK))
        self.n_chunks = len(self._runs)
        self._duplicates: list[DuplicateRows] = []

    def _chunks(self) -> Iterator[Piece]:
        for run in self._runs:
            yield concatenate([self.pieces[k].slice(start, stop) for k, start, stop in run])

    def count_distinct(self) -> int:
        self._duplicates = [find_duplicates(chunk) for chunk in self._chunks()]
        return sum(len(found.first) for found in self._duplicates)

    def merge(self) -> _LocalChunks:
        pairs = zip(self._chunks(), self._duplicates, strict=True)
        return _LocalChunks([merge_duplicates(chunk, duplicates) for chunk, duplicates in pairs])


def find_duplicates(chunk: Piece) -> DuplicateRows:
    """Find the rows of a chunk with equal hashes."""
    _, first, owner = np.unique(hash_rows(chunk.codes, chunk.covariates), return_index=True, return_inverse=True)
    return DuplicateRows(first, owner)


def merge_duplicates(chunk: Piece, duplicates: DuplicateRows) -> Piece:
    """Return the distinct rows of a chunk, with the summed weights of their duplicates."""
    first = duplicates.first[duplicates.owner]
    # Different rows hardly ever have the same hash: such a chunk is returned unchanged.
    if (chunk.codes != chunk.codes[:, first]).any() or (chunk.covariates != chunk.covariates[:, first]).any():
        return chunk
    kept = np.sort(duplicates.first)
    summed = np.bincount(first, weights=chunk.weight, minlength=chunk.n_rows)[kept]
    return Piece(np.ascontiguousarray(chunk.codes[:, kept]), chunk.covariates[:, kept], summed)


def merge_equal_rows(chunk: Piece) -> Piece:
    """Return the distinct rows of a chunk with their summed weights; the chunk itself if little is gained."""
    duplicates = find_duplicates(chunk)
    return merge_duplicates(chunk, duplicates) if len(duplicates.first) <= MAX_DISTINCT_SHARE * chunk.n_rows else chunk


def hash_rows(codes: np.ndarray, covariates: np.ndarray) -> np.ndarray:
    """Return a hash of each row, a sum of odd multiples modulo 2^64, (rows,)."""
    factors = np.random.default_rng(0).integers(0, 2**63, len(codes) + len(covariates), dtype=np.uint64) * 2 + 1
    hashes = np.zeros(codes.shape[1], dtype=np.uint64)
    for factor, column in zip(factors, codes, strict=False):
        hashes += factor * column.astype(np.uint64)
    for factor, column in zip(factors[len(codes) :], covariates, strict=True):
        # Both signs of zero are equal and need the same hash. Round numbers have their bits at the upper end, where a
        # product would lose them.
        bits = (column + 0.0).view(np.uint64)
        hashes += factor * (bits ^ (bits >> np.uint64(33)) ^ (bits >> np.uint64(51)))
    return hashes
