"""This module turns pieces of sparse rows into the blocks that the whole table has in memory, bit for bit."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sparsefield import config
from sparsefield.data.frames import Columns
from sparsefield.data.schema import Schema
from sparsefield.data.sparse_table import SparseBlock, read_active_cells


class SparsePiece(NamedTuple):
    """Consecutive rows, encoded as in `SparseTable`."""

    offsets: np.ndarray
    columns: np.ndarray
    weight: np.ndarray

    @property
    def n_rows(self) -> int:
        return len(self.weight)

    @property
    def n_active(self) -> int:
        return len(self.columns)


def compile_sparse_piece(source: Columns, schema: Schema, weight: np.ndarray | None = None) -> SparsePiece | None:
    """Encode a partition of a table; None if a cell is missing."""
    cells = read_active_cells(source, schema)
    weight = np.ones(source.n_rows, dtype=config.FLOAT) if weight is None else weight
    return None if cells is None else SparsePiece(*cells, weight)


def slice_sparse(piece: SparsePiece, start: int, stop: int) -> SparsePiece:
    offsets = piece.offsets[start : stop + 1]
    return SparsePiece(offsets - offsets[0], piece.columns[offsets[0] : offsets[-1]], piece.weight[start:stop])


def concatenate_sparse(pieces: Sequence[SparsePiece]) -> SparsePiece:
    before = np.cumsum([0, *(piece.n_active for piece in pieces)])
    offsets = [np.zeros(1, dtype=np.int64)]
    offsets += [first + piece.offsets[1:] for first, piece in zip(before.tolist(), pieces, strict=False)]
    columns, weight = [piece.columns for piece in pieces], [piece.weight for piece in pieces]
    return SparsePiece(np.concatenate(offsets), np.concatenate(columns), np.concatenate(weight))


def block_ends_within(piece: SparsePiece, ends: np.ndarray, cells_before: int, rows_before: int) -> list[int]:
    """Return the rows of a table at which blocks end, within a piece.

    ``ends`` come from `block_ends`; ``cells_before`` and ``rows_before`` count active cells and rows before the piece.
    """
    mine = ends[(ends > cells_before) & (ends <= cells_before + piece.n_active)]
    return (rows_before + np.searchsorted(cells_before + piece.offsets, mine)).tolist()


def cut_sparse_piece(piece: SparsePiece, bounds: Sequence[int]) -> tuple[SparseBlock, ...]:
    """Cut a piece, which starts with row ``bounds[0]`` of its table, into blocks that end at the other bounds."""
    return tuple(
        SparseBlock(start, *slice_sparse(piece, start - bounds[0], stop - bounds[0]))
        for start, stop in pairwise(bounds)
    )


def digest_sparse_block(block: SparseBlock) -> bytes:
    """Return a digest of the data of a block."""
    digest = hashlib.blake2b(digest_size=16)
    for array in (block.offsets, block.columns, block.weight):
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()
