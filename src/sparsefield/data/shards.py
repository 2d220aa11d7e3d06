"""This module turns pieces of rows into shards, each of which has a power of two of consecutive blocks of a table.

The blocks of all shards are identical, bit for bit, to the blocks of the same rows in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from sparsefield import config
from sparsefield.data.frames import Columns
from sparsefield.data.labels import Label
from sparsefield.data.schema import Schema
from sparsefield.data.sparse_table import SparseBlock
from sparsefield.data.table import Block, cut_into_blocks, encode_rows

AnyBlock = TypeVar("AnyBlock", Block, SparseBlock)


class Piece(NamedTuple):
    """Consecutive rows of a table, encoded by a schema."""

    codes: np.ndarray
    """(targets, rows) int32"""
    covariates: np.ndarray
    """(observed columns, rows)"""
    weight: np.ndarray
    """(rows,)"""

    @property
    def n_rows(self) -> int:
        return len(self.weight)

    def slice(self, start: int, stop: int) -> Piece:
        return Piece(self.codes[:, start:stop], self.covariates[:, start:stop], self.weight[start:stop])


def compile_piece(
    source: Columns, schema: Schema, weight: np.ndarray | None = None
) -> tuple[Piece, dict[str, tuple[int, Label]]]:
    """Encode a partition of a table; also return, by column, the number of unknown values with an example.

    Unknown values do not occur in training, and become missing.
    """
    codes, covariates, unknown = encode_rows(source, schema)
    weight = np.ones(source.n_rows, dtype=config.FLOAT) if weight is None else weight
    return Piece(codes, covariates, weight), {name: (len(odd.rows), odd.example) for name, odd in unknown.items()}


def concatenate(pieces: Sequence[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    codes, covariates, weight = zip(*pieces, strict=True)
    return Piece(np.concatenate(codes, axis=1), np.concatenate(covariates, axis=1), np.concatenate(weight))


def has_missing(piece: Piece, schema: Schema) -> bool:
    """Return whether any cell is missing, not counting those of latent variables."""
    own = len(schema.targets) - len(schema.latent)
    return bool((piece.codes[:own] < 0).any())


def cut_piece(schema: Schema, piece: Piece, first: int, size: int) -> tuple[Block, ...]:
    """Cut a piece into blocks of ``size`` rows; it starts with row ``first`` of its table, the first row of a block."""
    return tuple(cut_into_blocks(schema, *piece, schema.n_columns, size=size, first=first))


def writable_blocks(blocks: Sequence[AnyBlock]) -> tuple[AnyBlock, ...]:
    """Return blocks whose arrays are writable and own their data.

    Arrays from a network are read-only, and kernels would be compiled once more for these.
    """

    def own(value: int | np.ndarray) -> int | np.ndarray:
        return np.require(value, requirements=["C", "W", "O"]) if isinstance(value, np.ndarray) else value

    return tuple(block._make(map(own, block)) for block in blocks)


def runs_of_rows(n_rows: int, size: int) -> list[tuple[int, int]]:
    """Return (start, stop) of consecutive runs of ``size`` rows; the last may be shorter."""
    return [(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def shard_rows(n_rows: int, blocks_per_shard: int) -> list[tuple[int, int]]:
    """Return (start, stop) of the rows of each shard."""
    if blocks_per_shard < 1 or blocks_per_shard & (blocks_per_shard - 1):
        raise ValueError(f"blocks_per_shard must be a power of two, got {blocks_per_shard}.")
    return runs_of_rows(n_rows, blocks_per_shard * config.block_rows(n_rows))


def overlaps(counts: Sequence[int], runs: Iterable[tuple[int, int]]) -> list[list[tuple[int, int, int]]]:
    """Return, for each run of rows, its pieces as (piece, start, stop); ``counts`` has the rows of each piece."""
    ends = np.cumsum(counts, dtype=np.int64)
    starts = ends - counts
    found = []
    for start, stop in runs:
        first, last = np.searchsorted(ends, start, side="right"), np.searchsorted(starts, stop, side="left")
        pieces = [k for k in range(int(first), int(last)) if counts[k]]
        found.append([(k, int(max(start - starts[k], 0)), int(min(stop, ends[k]) - starts[k])) for k in pieces])
    return found


def combine_digests(digests: Iterable[bytes]) -> str:
    """Combine the digests of all blocks of a table, in their order."""
    return hashlib.blake2b(b"".join(digests), digest_size=16).hexdigest()
