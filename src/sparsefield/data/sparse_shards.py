"""Sparse rows in pieces, and the blocks that the table of all of them has in memory, bit for bit."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.data.frames import Columns
from sparsefield.data.schema import Schema
from sparsefield.data.sparse_table import SparseBlock, read_on

__all__ = [
    "SparsePiece",
    "compile_sparse_piece",
    "concatenate_sparse",
    "cut_sparse_piece",
    "digest_sparse_block",
    "ends_within",
    "slice_sparse",
]


class SparsePiece(NamedTuple):
    """Some consecutive rows, as in `SparseTable`."""

    offsets: np.ndarray
    columns: np.ndarray
    weight: np.ndarray

    @property
    def n_rows(self) -> int:
        return len(self.weight)

    @property
    def n_on(self) -> int:
        return len(self.columns)


def compile_sparse_piece(source: Columns, schema: Schema, weight: np.ndarray | None = None) -> SparsePiece | None:
    """The rows of a part of a table; None where there is a gap."""
    on = read_on(source, schema)
    weight = np.ones(source.n_rows, dtype=config.FLOAT) if weight is None else weight
    return None if on is None else SparsePiece(*on, weight)


def slice_sparse(piece: SparsePiece, start: int, stop: int) -> SparsePiece:
    offsets = piece.offsets[start : stop + 1]
    return SparsePiece(offsets - offsets[0], piece.columns[offsets[0] : offsets[-1]], piece.weight[start:stop])


def concatenate_sparse(pieces: Sequence[SparsePiece]) -> SparsePiece:
    before = np.cumsum([0, *(piece.n_on for piece in pieces)])
    offsets = [np.zeros(1, dtype=np.int64)]
    offsets += [first + piece.offsets[1:] for first, piece in zip(before.tolist(), pieces, strict=False)]
    columns, weight = [piece.columns for piece in pieces], [piece.weight for piece in pieces]
    return SparsePiece(np.concatenate(offsets), np.concatenate(columns), np.concatenate(weight))


def ends_within(piece: SparsePiece, ends: np.ndarray, cells_before: int, rows_before: int) -> list[int]:
    """The rows of a table at which blocks end, as far as they lie in a piece.

    ``ends`` are those of `block_ends`; before the piece are so many cells that are on, in so many rows.
    """
    mine = ends[(ends > cells_before) & (ends <= cells_before + piece.n_on)]
    return (rows_before + np.searchsorted(cells_before + piece.offsets, mine)).tolist()


def cut_sparse_piece(piece: SparsePiece, places: Sequence[int]) -> tuple[SparseBlock, ...]:
    """Blocks of a piece, which begins with the row that is the first of ``places``; one ends at each of the others."""
    return tuple(
        SparseBlock(start, *slice_sparse(piece, start - places[0], stop - places[0]))
        for start, stop in pairwise(places)
    )


def digest_sparse_block(block: SparseBlock) -> bytes:
    """A mark of what a fit reads of a block."""
    digest = hashlib.blake2b(digest_size=16)
    for array in (block.offsets, block.columns, block.weight):
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()
