"""Rows in pieces, and shards: a power of two of consecutive blocks of a table, made from pieces wherever these lie.

The blocks of all shards in a row are those of the same rows in memory, bit for bit.
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
from sparsefield.data.table import Block, cut_into_blocks, read_rows

__all__ = [
    "Piece",
    "compile_piece",
    "concatenate",
    "cut_piece",
    "digest_block",
    "digest_of_all",
    "has_missing",
    "overlaps",
    "own_arrays",
    "runs_of_rows",
    "shard_rows",
    "slice_piece",
]


AnyBlock = TypeVar("AnyBlock", Block, SparseBlock)


class Piece(NamedTuple):
    """Some consecutive rows under a schema."""

    codes: np.ndarray
    """(targets, rows) int32"""
    givens: np.ndarray
    """(observed columns, rows)"""
    weight: np.ndarray
    """(rows,)"""

    @property
    def n_rows(self) -> int:
        return len(self.weight)


def compile_piece(
    source: Columns, schema: Schema, weight: np.ndarray | None = None
) -> tuple[Piece, dict[str, tuple[int, Label]]]:
    """The rows of a part of a table; and, by column, how many cells hold values that training never saw, which are
    gaps, with an example."""
    codes, givens, unseen = read_rows(source, schema)
    given = np.concatenate([np.empty((0, source.n_rows), dtype=config.FLOAT), *givens])
    weight = np.ones(source.n_rows, dtype=config.FLOAT) if weight is None else weight
    return Piece(codes, given, weight), {name: (len(odd.rows), odd.example) for name, odd in unseen.items()}


def slice_piece(piece: Piece, start: int, stop: int) -> Piece:
    return Piece(piece.codes[:, start:stop], piece.givens[:, start:stop], piece.weight[start:stop])


def concatenate(pieces: Sequence[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    codes, givens, weight = zip(*pieces, strict=True)
    return Piece(np.concatenate(codes, axis=1), np.concatenate(givens, axis=1), np.concatenate(weight))


def has_missing(piece: Piece, schema: Schema) -> bool:
    """Whether a cell is missing that a table could have: those of latent variables are not."""
    own = len(schema.targets) - len(schema.latent)
    return bool((piece.codes[:own] < 0).any())


def cut_piece(schema: Schema, piece: Piece, first: int, size: int) -> tuple[Block, ...]:
    """Blocks of ``size`` rows of a piece that begins with row ``first`` of its table, the first of a block."""
    givens = [piece.givens] if len(piece.givens) else []
    blocks = cut_into_blocks(schema, piece.codes, givens, piece.weight, schema.n_columns, size=size, first=first)
    return tuple(blocks)


def own_arrays(blocks: Sequence[AnyBlock]) -> tuple[AnyBlock, ...]:
    """The same blocks in arrays that can be written to and hold on to no others.

    Arrays that came over a network can only be read, and kernels would be compiled once more for such.
    """

    def own(value: int | np.ndarray) -> int | np.ndarray:
        return np.require(value, requirements=["C", "W", "O"]) if isinstance(value, np.ndarray) else value

    return tuple(block._make(map(own, block)) for block in blocks)


# -- which rows -----------------------------------------------------------------------------------------------------


def runs_of_rows(n_rows: int, size: int) -> list[tuple[int, int]]:
    """(start, stop) of ``size`` rows each, but for the last."""
    return [(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def shard_rows(n_rows: int, blocks_per_shard: int) -> list[tuple[int, int]]:
    """(start, stop) of the rows of each shard."""
    if blocks_per_shard < 1 or blocks_per_shard & (blocks_per_shard - 1):
        raise ValueError(f"blocks_per_shard is a power of two, got {blocks_per_shard}.")
    return runs_of_rows(n_rows, blocks_per_shard * config.block_rows(n_rows))


def overlaps(counts: Sequence[int], runs: Iterable[tuple[int, int]]) -> list[list[tuple[int, int, int]]]:
    """For each run of rows, (piece, start, stop) of the pieces that it is made of; ``counts`` has their rows."""
    ends = np.cumsum(counts, dtype=np.int64)
    starts = ends - counts
    found = []
    for start, stop in runs:
        first, last = np.searchsorted(ends, start, side="right"), np.searchsorted(starts, stop, side="left")
        found.append(
            [
                (k, int(max(start - starts[k], 0)), int(min(stop, ends[k]) - starts[k]))
                for k in range(int(first), int(last))
                if counts[k]
            ]
        )
    return found


# -- marks ----------------------------------------------------------------------------------------------------------


def digest_block(block: Block) -> bytes:
    """A mark of what a fit reads of a block."""
    digest = hashlib.blake2b(digest_size=16)
    for array in (block.codes, block.givens, block.weight):
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def digest_of_all(digests: Iterable[bytes]) -> str:
    """One word for the blocks of a table, whoever held them."""
    return hashlib.blake2b(b"".join(digests), digest_size=16).hexdigest()
