"""This module completes the rows of a table once, so that many fits to parts of them need no inference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsefield.data import Block, Table
from sparsefield.data.table import join_blocks, rebuild_table
from sparsefield.inference.completions import Draws, FieldWeights, complete_rows, drawn_block, rows_of_block
from sparsefield.kernels.row_draws import row_keys
from sparsefield.model import Field

COPIES = 8
"""Completions of a row with missing cells."""

SWEEPS = 20
"""Gibbs sweeps before they are drawn."""


@dataclass(frozen=True)
class CompletedRowSet:
    """Complete rows, each of which belongs to a row of a table."""

    block: Block
    owner: np.ndarray
    """(rows of the block,): row of the table."""
    n_rows: int
    """Rows of the table."""

    def subset(self, chosen: np.ndarray) -> Block:
        """Return the completed rows of the rows of a mask, (rows of the table,)."""
        return rows_of_block(self.block, np.flatnonzero(chosen[self.owner]))


def complete_once(table: Table, field: Field, seed: int) -> CompletedRowSet:
    """Return the rows of a table, with `COPIES` draws in the place of each row that has missing cells.

    Missing cells are not predicted. All draws come from one field, which knows no groups, so that under the hypothesis
    that groups are alike the labels of the completed rows can be permuted like those of the rows.
    """
    block = join_blocks(table.blocks)
    incomplete = (block.codes < 0).any(axis=0)
    if not incomplete.any():
        return CompletedRowSet(block, np.arange(table.n_rows), table.n_rows)
    keys = row_keys(seed, 0, np.zeros(block.n_rows, dtype=np.int64), np.arange(block.n_rows))
    before = np.empty((len(block.missing_rows), 0), dtype=np.int32)
    _, drawn, _ = complete_rows(FieldWeights.of(field), 0, block, Draws(COPIES, 1, SWEEPS), keys, before)
    kept = np.flatnonzero(~incomplete)
    owner = np.concatenate([kept, np.repeat(drawn.rows, COPIES)])
    return CompletedRowSet(join_blocks([rows_of_block(block, kept), drawn_block(block, drawn)]), owner, table.n_rows)


def complete_table(table: Table, field: Field, seed: int) -> Table:
    """Return a table in which one draw has the place of each missing cell, as if it had been observed."""
    block = join_blocks(table.blocks)
    if not len(block.missing_rows):
        return table
    keys = row_keys(seed, 1, np.zeros(block.n_rows, dtype=np.int64), np.arange(block.n_rows))
    before = np.empty((len(block.missing_rows), 0), dtype=np.int32)
    _, _, drawn = complete_rows(FieldWeights.of(field), 0, block, Draws(1, 1, SWEEPS), keys, before)
    codes = block.codes.copy()
    codes[np.repeat(np.arange(len(codes)), np.diff(block.cell_offsets)), block.missing_rows] = drawn[:, 0]
    return rebuild_table(table, codes, np.arange(table.n_rows), table.schema.n_columns)
